package provisioner

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
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

// wantedPermissions returns the permissions that this driver and these flags need, in the order of
// the shipped role.
func (w *builder) wantedPermissions() ([]process.Permission, error) {
	shipped, err := process.ShippedPermissions("csi-provisioner", "")
	wanted := registry.Permissions(w.needed())
	place := func(p process.Permission) int {
		if i := slices.Index(shipped, p); i >= 0 {
			return i
		}
		return len(shipped)
	}
	slices.SortStableFunc(wanted, func(a, b process.Permission) int { return cmp.Compare(place(a), place(b)) })
	leases, capacities := w.role.Election.LeaseNamespace(), os.Getenv(envNamespace)
	namespaces := map[string]string{ // EN-3, RB-11
		"leases": leases, "endpoints": leases, "csistoragecapacities": capacities, "pods": capacities, "replicasets": capacities,
	}
	for i := range wanted {
		wanted[i].Namespace = namespaces[wanted[i].Resource]
	}
	return wanted, err
}

// needed returns the entries of the enabled controllers with the permissions that this driver and
// these flags need.
func (w *builder) needed() []registry.Entry {
	var entries []registry.Entry
	for _, c := range append(w.enabled(), controller{optional: ofRole}) {
		if !c.isPossible(w) {
			continue
		}
		for _, o := range c.optional {
			if o.when(w) {
				c.Grants = append(slices.Clone(c.Grants), o.grants...)
			}
		}
		entries = append(entries, c.Entry)
	}
	return entries
}

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
