package provisioner

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/roles/process"
)

// optionalPermissions are permissions that not every class needs, with the effect of lacking them.
var optionalPermissions = map[string]string{
	"secrets": "StorageClasses of this driver name secrets, which are read where the claims need them; " +
		"deploy/optional/csi-provisioner-secrets.yaml gives it for a namespace",
}

// optionalManifests are the manifests of the permissions that a flag needs beyond the shipped role,
// by resource (RB-12, U-51).
var optionalManifests = map[string]string{
	"namespaces": "deploy/optional/csi-provisioner-namespaces.yaml",
	"endpoints":  "deploy/optional/csi-provisioner-endpoints.yaml",

	"referencegrants": "deploy/optional/csi-provisioner-grants.yaml",
}

// unusedVerbs are verbs of upstream's role that Purser does not need: events are not read, and
// leases are created once and never deleted (RB-4, RB-11).
var unusedVerbs = map[string][]string{"events": {"list", "watch", "update"}, "leases": {"list", "watch", "delete"}, "csistoragecapacities": {"patch"}}

// inCapacityNamespace are the resources of the namespace of the capacities (EN-3, RB-11).
var inCapacityNamespace = []string{"csistoragecapacities", "pods", "replicasets"}

// wantedPermissions returns the permissions of the shipped role that this driver and these flags
// need.
func (w *builder) wantedPermissions() ([]process.Permission, error) {
	namespace, capacities := w.role.Election.LeaseNamespace(), os.Getenv(envNamespace)
	shipped, err := process.ShippedPermissions("csi-provisioner", namespace)
	if err != nil {
		return nil, err
	}
	unneeded := map[string]bool{
		"nodes": !w.readsNodes(), "csinodes": !w.readsNodes(), "volumeattachments": !w.attaches(),
		"volumesnapshots": !w.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),

		"volumesnapshotcontents":  !w.has(csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT),
		"volumeattributesclasses": !w.has(csi.ControllerServiceCapability_RPC_MODIFY_VOLUME) || !w.role.Gates.Enabled(GateVolumeAttributesClass),
		"csistoragecapacities":    !w.role.Capacity.Enabled, "pods": !w.role.Capacity.Enabled || w.role.Capacity.OwnerLevel < 0,
		"replicasets": !w.role.Capacity.Enabled || w.role.Capacity.OwnerLevel < 2,
		"leases":      !w.role.Election.Enabled && w.role.Journal.Intents == intentsOff,
	}
	var wanted []process.Permission
	for _, p := range shipped {
		if slices.Contains(inCapacityNamespace, p.Resource) {
			p.Namespace = capacities
		}
		if !unneeded[p.Resource] && !slices.Contains(unusedVerbs[p.Resource], p.Verb) {
			wanted = append(wanted, p)
		}
	}
	if w.role.Gates.Enabled(GateCrossNamespaceSource) { // RB-9
		wanted = append(wanted, process.Permission{Group: names.GatewayGroup, Resource: "referencegrants", Verb: "list"})
	}
	if w.role.readsNamespaces() { // U-51
		wanted = append(wanted, process.Permission{Resource: "namespaces", Verb: "get"})
	}
	if w.role.Election.TakesEndpoints() { // RB-12
		for _, verb := range []string{"get", "create", "update"} {
			wanted = append(wanted, process.Permission{Namespace: namespace, Resource: "endpoints", Verb: verb})
		}
	}
	return wanted, nil
}

func (w *builder) has(c csi.ControllerServiceCapability_RPC_Type) bool { return w.Driver.Controller[c] }

// secretPermissions returns the permissions for the secrets that the classes of a driver name for
// CreateVolume and DeleteVolume. If the namespace depends on the claim, they are for all namespaces
// (RB-8, U-42).
func secretPermissions(classes []storagev1.StorageClass, driver string) []process.Permission {
	in := map[string]bool{}
	for _, class := range classes {
		if class.Provisioner != driver {
			continue
		}
		for _, kind := range []secretref.Kind{secretref.Provisioner, secretref.Deletion} {
			switch namespace := secretref.Namespace(kind, class.Parameters); {
			case strings.Contains(namespace, "$"):
				in[""] = true
			case namespace != "":
				in[namespace] = true
			}
		}
	}
	var wanted []process.Permission
	for _, namespace := range slices.Sorted(maps.Keys(in)) {
		wanted = append(wanted, process.Permission{Namespace: namespace, Resource: "secrets", Verb: "get"})
	}
	return wanted
}

func (w *builder) permissionCheck(ctx context.Context) (process.PermissionCheck, error) {
	wanted, err := w.wantedPermissions()
	return process.PermissionCheck{
		Role: "csi-provisioner", Wanted: append(wanted, secretPermissions(w.classes(ctx), w.Driver.Name)...),
		Optional: optionalPermissions, Manifests: optionalManifests,
	}, err
}

// classes lists the StorageClasses. It returns none if the list fails: a missing permission to read
// them is reported by itself.
func (w *builder) classes(ctx context.Context) []storagev1.StorageClass {
	client, err := storageclient.NewForConfig(w.API)
	if err != nil {
		return nil
	}
	list, err := client.StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return list.Items
}
