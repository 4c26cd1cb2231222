package provisioner

import (
	"context"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/secretref"
)

// optionalPermissions are permissions that not every class needs, with the effect of lacking them.
var optionalPermissions = map[string]string{
	"secrets": "StorageClasses of this driver name secrets, which are read where the claims need them; " +
		"deploy/optional/csi-provisioner-secrets.yaml gives it for a namespace",
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

// addSecrets adds the permissions for secrets to the check.
func (w *builder) addSecrets(ctx context.Context, check *process.PermissionCheck) {
	check.Wanted = append(check.Wanted, secretPermissions(w.classes(ctx), w.Driver.Name)...)
	check.Optional = optionalPermissions
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
