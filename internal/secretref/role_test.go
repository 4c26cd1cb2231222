package secretref

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestRefused(t *testing.T) {
	want := types.NamespacedName{Namespace: "vault", Name: "create"}
	refusal := apierrors.NewForbidden(corev1.Resource("secrets"), "create", errors.New(
		`User "system:serviceaccount:purser-system:csi-resizer" cannot get resource "secrets" in API group "" in the namespace "vault"`))
	ref, user, ok := Refused("read secret: " + refusal.Error() + "; to allow it: kubectl")
	if !ok || ref != want || user != "system:serviceaccount:purser-system:csi-resizer" {
		t.Errorf("%v, %q, %t", ref, user, ok)
	}
	for _, other := range []string{"", `secrets "create" not found`, `pods "p" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "n"`} {
		if _, _, ok := Refused(other); ok {
			t.Errorf("%q is taken for the refusal of a secret", other)
		}
	}
	if got := PermitRead(want, ""); got != "kubectl -n vault create role read-create --verb=get --resource=secrets --resource-name=create && "+
		"kubectl -n vault create rolebinding read-create --role=read-create --user=NAME" {
		t.Error(got)
	}
	hostile := types.NamespacedName{Namespace: "v;x", Name: "a b"}
	if got := PermitRead(hostile, "u$(id)"); got != "kubectl -n 'v;x' create role 'read-a b' --verb=get --resource=secrets '--resource-name=a b' && "+
		"kubectl -n 'v;x' create rolebinding 'read-a b' '--role=read-a b' '--user=u$(id)'" {
		t.Error(got)
	}
	if got := PermitReadBy(want, "RESIZER"); !strings.HasSuffix(string(got), " --role=read-create --serviceaccount=NAMESPACE:NAME-OF-THE-RESIZER") {
		t.Error(got)
	}
}
