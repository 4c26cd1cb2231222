package provisioner

import (
	"context"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// The manifests of the permissions that a flag needs beyond the shipped role (RB-12, U-51).
const (
	manifestNamespaces = "deploy/optional/csi-provisioner-namespaces.yaml"
	manifestEndpoints  = "deploy/optional/csi-provisioner-endpoints.yaml"
	manifestGrants     = "deploy/optional/csi-provisioner-grants.yaml"
)

// takeSnapshots says which drivers need permissions for snapshots.
const takeSnapshots = "for drivers that take snapshots"

// table lists the controllers. They are added in this order: each may refer to those before it.
func (p *parts) table() []registry.Controller {
	return []registry.Controller{
		p.capacityPublisher(),
		{
			Name: "reclaim", Off: !p.createsVolumes(), Grants: append(p.deletions(), p.journals()...),
			Fields: volumeFields,
			Add:    p.with(addReclaim),
		},
		{
			Name: "sourceprotection", Off: !p.createsVolumes(),
			Grants: []registry.Grant{
				registry.Allow("", "persistentvolumeclaims", "get", "list", "watch", "update"), // RB-2
				registry.Allow(names.SnapshotGroup, "volumesnapshots", "get", "list", "update").
					If(p.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT), takeSnapshots), // RB-5
				p.leases("list").
					If(p.role.NodeDeployment.Enabled, "with --node-deployment"), // the journals of other nodes
			},
			Add: p.with(addSourceProtection),
		},
		p.claimProvisioner(),
		{
			Name: "orphanreport", When: "with --orphan-audit-interval", Off: !p.createsVolumes() ||
				p.role.Journal.OrphanAudit == 0,
			Capability: csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
			Absent:     "--orphan-audit-interval has no effect: the driver does not have the capability LIST_VOLUMES",
			Grants:     []registry.Grant{registry.Allow("", "persistentvolumes", registry.Read...)},
			Add:        p.with(addOrphanReport),
		},
		{
			Name: "reap", Off: p.createsVolumes(), When: "with --purser-reap-removed-nodes",
			Grants: append(p.deletions(), registry.Allow("", "nodes", registry.Read...), p.leases("list", "delete"),
				// for the check of permissions, [parts.classes]
				registry.Allow(storagev1.GroupName, "storageclasses", "list")),
			Fields: append(volumeFields, nodeLabels), Add: p.with(addReaper),
		},
	}
}

// with returns the function that adds a controller with the settings of the role.
func (p *parts) with(add func(context.Context, *parts) error) func(context.Context, reconcile.Settings) error {
	return func(ctx context.Context, settings reconcile.Settings) error {
		p.settings = settings
		return add(ctx, p)
	}
}

func (p *parts) capacityPublisher() registry.Controller {
	c, own := p.role.Capacity, os.Getenv(envNamespace) // EN-3
	return registry.Controller{
		Name: "capacity", Off: !c.Enabled, When: "with --enable-capacity",
		Capability: csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		Absent: "--enable-capacity has no effect: the driver does not have the capability GET_CAPACITY; " +
			"set spec.storageCapacity to false in its CSIDriver object, or the scheduler waits for objects that " +
			"nothing writes",
		Grants: append([]registry.Grant{
			registry.Allow(storagev1.GroupName, "csistoragecapacities",
				"get", "list", "watch", "create", "update", "delete").In(own), // RB-11
			registry.Allow("", "persistentvolumes", registry.Read...),
			registry.Allow(storagev1.GroupName, "storageclasses", registry.Read...),
			registry.Allow("", "pods", "get").In(own).
				If(c.OwnerLevel >= 0, "with --enable-capacity"),
			registry.Allow("apps", "replicasets", "get").In(own).
				If(c.OwnerLevel >= 2, "with --enable-capacity"),
		}, p.topologyOfNodes()...),
		Fields: append(volumeFields, nodeLabels), Add: p.with(addCapacity),
	}
}

// claimProvisioner returns the row of the controller that creates volumes. Its requests are made of more
// than the claim and its class.
func (p *parts) claimProvisioner() registry.Controller {
	snapshots := p.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)
	return registry.Controller{
		Name: "provision", Off: !p.createsVolumes(),
		Grants: append([]registry.Grant{
			registry.Allow("", "persistentvolumes", "get", "list", "watch", "create"),                         // RB-1
			registry.Allow("", "persistentvolumeclaims", "get", "list", "watch", "update"),                    // RB-2
			registry.Allow(storagev1.GroupName, "storageclasses", registry.Read...),                           // RB-3
			registry.Allow(names.SnapshotGroup, "volumesnapshots", "get").If(snapshots, takeSnapshots),        // RB-5
			registry.Allow(names.SnapshotGroup, "volumesnapshotcontents", "get").If(snapshots, takeSnapshots), // RB-5
			// Without them a restore reads both live.
			registry.Allow(names.SnapshotGroup, "volumesnapshots", "list", "watch").If(false, takeSnapshots),
			registry.Allow(names.SnapshotGroup, "volumesnapshotcontents", "list", "watch").If(false, takeSnapshots),
			registry.Allow(storagev1.GroupName, "volumeattributesclasses", "get").If( // RB-10
				p.has(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME) &&
					p.role.Gates.Enabled(GateVolumeAttributesClass),
				"for drivers that modify volumes; upstream's role lacks it"),
			registry.Allow(names.GatewayGroup, "referencegrants", "list").By(manifestGrants).
				If(p.role.Gates.Enabled(GateCrossNamespaceSource), "for sources in other namespaces"), // RB-9
			registry.Allow("", "namespaces", "get").By(manifestNamespaces).
				If(p.role.readsNamespaces(), "for labels of namespaces"), // U-51
		}, p.topologyOfNodes()...),
		Fields: append(volumeFields, nodeLabels, kube.AttributesClassFields, kube.Whole[snapshotv1.VolumeSnapshot](),
			kube.Whole[snapshotv1.VolumeSnapshotContent]()), Add: p.with(addProvision),
	}
}

// deletions returns the permissions to delete volumes, unless they are attached (RB-1, RB-2, RB-7, W-5).
func (p *parts) deletions() []registry.Grant {
	return []registry.Grant{
		registry.Allow("", "persistentvolumes", "get", "list", "watch", "patch", "delete"),
		registry.Allow("", "persistentvolumeclaims", registry.Read...),
		registry.Allow(storagev1.GroupName, "volumeattachments", registry.Read...).
			If(p.has(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME), "for drivers that attach"),
		registry.Allow("", "endpoints", "get", "create", "update").In(p.role.Election.LeaseNamespace()).By(
			manifestEndpoints,
		).
			If(p.role.Election.TakesEndpoints(), "for the lock of version 1"), // of the election (RB-12)
	}
}

// journals returns the permissions for the journal (RB-11).
func (p *parts) journals() []registry.Grant {
	return []registry.Grant{p.leases("get", "update", "create").
		If(p.role.Journal.Intents != IntentsOff, "")}
}

func (p *parts) leases(verbs ...string) registry.Grant {
	return registry.Allow(coordinationv1.GroupName, "leases", verbs...).In(p.role.Election.LeaseNamespace())
}

func (p *parts) topologyOfNodes() []registry.Grant { // RB-6
	return []registry.Grant{
		registry.Allow(storagev1.GroupName, "csinodes", registry.Read...).If(
			p.readsNodes(), "for drivers with topology",
		),
		registry.Allow("", "nodes", registry.Read...).If(p.readsNodes(), "for drivers with topology"),
	}
}

var (
	volumeFields = []*kube.Fields{kube.VolumeFields, kube.ProvisionedVolumeFields}
	// nodeLabels are the topology of a node.
	nodeLabels = kube.Reads(func(from, to *corev1.Node) { to.Labels = from.Labels })
)

func (p *parts) has(c csi.ControllerServiceCapability_RPC_Type) bool { return p.Driver.Controller[c] }

// createsVolumes reports whether the instance does what the role is for, and not only what the
// reaper does.
func (w *builder) createsVolumes() bool { return w.role.Reap.Mode == "" }

// Reads returns the fields that a provisioner reads in the cache of the controllers in the same
// process, besides those that the controllers read. A claim without a volume is whole there.
func Reads() []*kube.Fields {
	return registry.Fields((&parts{builder: &builder{&sidecar.Sidecar{}, New()}}).table())
}
