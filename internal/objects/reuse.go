package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
)

// Reuse returns what the annotation purser/reuse of a volume asks for; empty for no annotation. An
// error means that an annotation of ours cannot be read, for its value or for its name. An empty value
// is such a one: it may come from an unset variable of a script. A volume with it is not deleted, since
// the annotation may have been meant to keep it.
func Reuse(pv *corev1.PersistentVolume) (how string, err error) {
	for _, name := range slices.Sorted(maps.Keys(pv.Annotations)) {
		if strings.HasPrefix(name, names.OwnPrefix) && name != names.AnnReuse && name != names.AnnTraceParent {
			return "", fmt.Errorf(
				"annotation %s is not known: on a PersistentVolume there is only %s; remove it", name, names.AnnReuse,
			)
		}
	}
	how, has := pv.Annotations[names.AnnReuse]
	switch {
	case !has, how == names.ReuseAny, how == names.ReuseSameName:
		return how, nil
	}
	if Heir(how).Name != "" {
		return how, nil
	}
	return "", fmt.Errorf(
		"annotation %s: %q is neither %q nor %q, nor the namespace and the name of a claim, as NAMESPACE/NAME",
		names.AnnReuse, how, names.ReuseSameName, names.ReuseAny,
	)
}

// ReuseOnClaim returns an error for a claim with the annotation purser/reuse, which has an effect on a
// PersistentVolume only: the user of a claim cannot decide that its data outlives it.
func ReuseOnClaim(claim *corev1.PersistentVolumeClaim) error {
	if _, has := claim.Annotations[names.AnnReuse]; !has {
		return nil
	}
	return fmt.Errorf(
		"annotation %s has no effect on a claim, and does not keep its volume. It belongs on the PersistentVolume: %s",
		names.AnnReuse, shell.Command("kubectl annotate pv NAME %s=%s", names.AnnReuse, names.ReuseSameName),
	)
}

// Heir returns the claim that the annotation purser/reuse names; empty for none.
func Heir(how string) types.NamespacedName {
	namespace, name, _ := strings.Cut(how, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: namespace, Name: name}
}
