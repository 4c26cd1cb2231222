package provisioner

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/registry"
)

// controller is one controller of the role. Its event source is that of the role.
type controller struct {
	registry.Entry

	// enabled reports whether the flags ask for the controller.
	enabled func(*builder) bool
	// capability is what the driver must have for it; UNKNOWN for nothing.
	capability csi.ControllerServiceCapability_RPC_Type
	optional   []option
	add        func(context.Context, *parts) error
}

// isPossible reports whether the driver has what the controller needs.
func (c controller) isPossible(w *builder) bool {
	return c.capability == csi.ControllerServiceCapability_RPC_UNKNOWN || has(c.capability)(w)
}

// option is what some drivers or flags need besides.
type option struct {
	when   func(*builder) bool
	grants []registry.Grant
}

// all returns the controllers. They are added in this order: each may refer to those before it.
func all() []controller {
	return []controller{
		capacityPublisher(),
		{
			Entry: registry.Entry{
				Name:   "reclaim",
				Grants: reclaims,
				Fields: []*kube.Fields{kube.ProvisionedVolumeFields},
			},
			enabled: createsVolumes, optional: []option{attachments}, add: addReclaim,
		},
		{
			Entry: registry.Entry{
				Name:   "sourceprotection",
				Grants: []registry.Grant{grant("", "persistentvolumeclaims", "get", "list", "watch", "update")}, // RB-2
			},
			enabled: createsVolumes,
			optional: []option{
				{
					has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
					[]registry.Grant{grant(names.SnapshotGroup, "volumesnapshots", "get", "list", "update")}, // RB-5
				},
				{ // the journals of other nodes
					func(w *builder) bool { return w.role.NodeDeployment.Enabled },
					[]registry.Grant{grant(coordinationv1.GroupName, "leases", "list")},
				},
			},
			add: addSourceProtection,
		},
		claimProvisioner(),
		{
			Entry: registry.Entry{
				Name:   "orphanreport",
				Grants: []registry.Grant{grant("", "persistentvolumes", read...)},
				Absent: "--orphan-audit-interval has no effect: the driver does not have the capability LIST_VOLUMES",
			},
			enabled:    func(w *builder) bool { return createsVolumes(w) && w.role.Journal.OrphanAudit != 0 },
			capability: csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
			add:        addOrphanReport,
		},
		{
			Entry: registry.Entry{
				Name: "reap",
				Grants: append(slices.Clone(reclaims), grant("", "nodes", read...),
					grant(coordinationv1.GroupName, "leases", "list", "delete"),
					grant(storagev1.GroupName, "storageclasses", "list")), // for the check of permissions, [builder.classes]
				Fields: []*kube.Fields{kube.ProvisionedVolumeFields, nodeLabels},
			},
			enabled: func(w *builder) bool { return !createsVolumes(w) }, optional: []option{attachments}, add: addReaper,
		},
	}
}

func capacityPublisher() controller {
	return controller{
		Entry: registry.Entry{
			Name: "capacity",
			Grants: []registry.Grant{
				grant(storagev1.GroupName, "csistoragecapacities", "get", "list", "watch", "create", "update", "delete"), // RB-11
				grant("", "persistentvolumes", read...), grant(storagev1.GroupName, "storageclasses", read...),
			},
			Absent: "--enable-capacity has no effect: the driver does not have the capability GET_CAPACITY; " +
				"set spec.storageCapacity to false in its CSIDriver object, or the scheduler waits for objects that nothing writes",
			Fields: []*kube.Fields{kube.ProvisionedVolumeFields, nodeLabels},
		},
		enabled:    func(w *builder) bool { return w.role.Capacity.Enabled },
		capability: csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		optional: []option{
			topologyOfNodes,
			{func(w *builder) bool { return w.role.Capacity.OwnerLevel >= 0 }, []registry.Grant{grant("", "pods", "get")}},
			{func(w *builder) bool { return w.role.Capacity.OwnerLevel >= 2 }, []registry.Grant{grant("apps", "replicasets", "get")}},
		},
		add: addCapacity,
	}
}

func claimProvisioner() controller {
	return controller{
		Entry: registry.Entry{
			Name: "provision",
			Grants: []registry.Grant{
				grant("", "persistentvolumes", "get", "list", "watch", "create"),      // RB-1
				grant("", "persistentvolumeclaims", "get", "list", "watch", "update"), // RB-2
				grant(storagev1.GroupName, "storageclasses", read...),                 // RB-3
			},
			Fields: []*kube.Fields{kube.ProvisionedVolumeFields, nodeLabels, kube.AttributesClassFields},
		},
		enabled: createsVolumes, optional: provisionOptions(), add: addProvision,
	}
}

// provisionOptions are what requests for volumes are made of besides the claim and its class.
func provisionOptions() []option {
	return []option{
		topologyOfNodes,
		{has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT), []registry.Grant{ // RB-5
			grant(names.SnapshotGroup, "volumesnapshots", "get"), grant(names.SnapshotGroup, "volumesnapshotcontents", "get"),
		}},
		{func(w *builder) bool {
			return has(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)(w) && w.role.Gates.Enabled(GateVolumeAttributesClass)
		}, []registry.Grant{grant(storagev1.GroupName, "volumeattributesclasses", "get")}}, // RB-10
		{
			func(w *builder) bool { return w.role.Gates.Enabled(GateCrossNamespaceSource) },
			[]registry.Grant{grant(names.GatewayGroup, "referencegrants", "list")}, // RB-9
		},
		{func(w *builder) bool { return w.role.readsNamespaces() }, []registry.Grant{grant("", "namespaces", "get")}}, // U-51
	}
}

// ofRole are the permissions of what all controllers share: the election and the journal.
var ofRole = []option{
	{
		func(w *builder) bool {
			return w.role.Election.Enabled || createsVolumes(w) && w.role.Journal.Intents != intentsOff
		},
		[]registry.Grant{grant(coordinationv1.GroupName, "leases", "get", "update", "create")}, // RB-11
	},
	{
		func(w *builder) bool { return w.role.Election.TakesEndpoints() },
		[]registry.Grant{grant("", "endpoints", "get", "create", "update")}, // RB-12
	},
}

var (
	read = []string{"get", "list", "watch"}

	// reclaims are the permissions to delete volumes (RB-1, RB-2).
	reclaims = []registry.Grant{
		grant("", "persistentvolumes", "get", "list", "watch", "patch", "delete"), grant("", "persistentvolumeclaims", read...),
	}
	// attachments says that a volume that is attached is not deleted (W-5, RB-7).
	attachments = option{
		has(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME),
		[]registry.Grant{grant(storagev1.GroupName, "volumeattachments", read...)},
	}
	topologyOfNodes = option{(*builder).readsNodes, []registry.Grant{ // RB-6
		grant(storagev1.GroupName, "csinodes", read...), grant("", "nodes", read...),
	}}
	// nodeLabels are the topology of a node.
	nodeLabels = kube.Reads(func(from, to *corev1.Node) { to.Labels = from.Labels })
)

func grant(group, resource string, verbs ...string) registry.Grant {
	return registry.Grant{Group: group, Resource: resource, Verbs: verbs}
}

func has(c csi.ControllerServiceCapability_RPC_Type) func(*builder) bool {
	return func(w *builder) bool { return w.Driver.Controller[c] }
}

// createsVolumes reports whether the instance does what the role is for, and not only what the
// reaper does.
func createsVolumes(w *builder) bool { return w.role.Reap.Mode == "" }

// Reads returns the fields that a provisioner reads in the cache of the controllers in the same
// process, besides those that the controllers read. A claim without a volume is whole there.
func Reads() []*kube.Fields { return registry.Fields(all()) }
