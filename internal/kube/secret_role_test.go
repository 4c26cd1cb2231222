package kube

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// The error about a forbidden secret names the account, the verb and a Role that can be applied, for every role that
// reads secrets; it is still a Forbidden error. Other errors stay as they are.
func TestForbiddenSecretNamesARole(t *testing.T) {
	ref := types.NamespacedName{Namespace: "vault", Name: "create"}
	refused := apierrors.NewForbidden(corev1.Resource("secrets"), "create", errors.New(
		`User "system:serviceaccount:purser-system:csi-resizer" cannot get resource "secrets" in API group "" in the namespace "vault"`))
	err := withRole(refused, ref)
	if !apierrors.IsForbidden(err) {
		t.Errorf("not forbidden: %v", err)
	}
	for _, want := range []string{
		`"system:serviceaccount:purser-system:csi-resizer" cannot get resource "secrets"`,
		"kubectl -n vault create role read-create --verb=get --resource=secrets --resource-name=create && ",
		"kubectl -n vault create rolebinding read-create --role=read-create --serviceaccount=purser-system:csi-resizer",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if missing := apierrors.NewNotFound(corev1.Resource("secrets"), "create"); !errors.Is(withRole(missing, ref), missing) {
		t.Error("another error changes")
	}
}
