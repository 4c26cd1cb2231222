package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
)

// Who wrote which field is forgotten only of an object of which all finalizers are known, and that
// no other finalizer holds.
func TestForgettingWriters(t *testing.T) {
	const ours, protects, theirs = names.FinalizerVolume, names.FinalizerPVProtection, "x/y"
	plain := func(o client.Object) client.Patch { return DropFinalizer(o, ours) }
	unchanged := func(o client.Object) client.Patch { return DropFinalizerUnchanged(o, ours) }
	for _, tc := range []struct {
		name       string
		drop       func(client.Object) client.Patch
		deleted    bool
		finalizers []string
		want       bool
	}{
		{"the last, of what is being deleted", plain, true, []string{ours}, true},
		{"the last but one that goes by itself", plain, true, []string{protects, ours}, true},
		{"another finalizer holds it", plain, true, []string{ours, theirs}, false},
		{"another finalizer may hold it by now", plain, false, []string{ours}, false},
		{"no other finalizer can hold it by now", unchanged, false, []string{ours, protects}, true},
		{"another finalizer holds it, unchanged", unchanged, false, []string{ours, theirs}, false},
	} {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "u", ResourceVersion: "7", Finalizers: tc.finalizers}}
		if tc.deleted {
			pv.DeletionTimestamp = new(metav1.Unix(1000, 0))
		}
		data, err := tc.drop(pv).Data(pv)
		if got := strings.Contains(string(data), `"managedFields":[{}]`); err != nil || got != tc.want {
			t.Errorf("%s: forgets %t, want %t: %s, %v", tc.name, got, tc.want, data, err)
		}
	}
}
