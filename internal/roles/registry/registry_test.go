package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/kube"
)

// The cache keeps the fields that the enabled controllers read, and no others.
func TestTrimIsComposed(t *testing.T) {
	node := kube.Reads(func(from, to *corev1.Pod) { to.Spec.NodeName = from.Spec.NodeName })
	phase := kube.Reads(func(from, to *corev1.Pod) { to.Status.Phase = from.Status.Phase })
	trim := Trim([]Controller{{Fields: []*kube.Fields{node}}}, node, phase)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "n", Hostname: "h"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, Message: "m"},
	}
	got, err := trim(pod)
	kept, isPod := got.(*corev1.Pod)
	if err != nil || !isPod {
		t.Fatalf("%T, %v", got, err)
	}
	if kept.UID != "u" || kept.ResourceVersion != "7" || kept.Spec.NodeName != "n" || kept.Status.Phase != corev1.PodRunning {
		t.Errorf("lacks what is read: %+v", kept)
	}
	if kept.Labels != nil || kept.Spec.Hostname != "" || kept.Status.Message != "" {
		t.Errorf("has what is not read: %+v", kept)
	}
	for _, in := range []any{&corev1.Node{}, toolscache.DeletedFinalStateUnknown{}} {
		if got, err := trim(in); err != nil || got != in {
			t.Errorf("%T: %v, %v", in, got, err)
		}
	}
}

// Permissions are those of grants that are needed, each once.
func TestPermissions(t *testing.T) {
	claims := Allow("", "persistentvolumeclaims", "get", "list")
	got := Permissions([]Grant{claims, claims, Allow("", "nodes", "get").If(false, "never"), Allow("", "pods", "get").In("ns").If(true, "always")})
	if want := "[get persistentvolumeclaims list persistentvolumeclaims get pods in namespace ns]"; fmt.Sprint(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A controller runs if the flags do not leave it out and the driver has what it needs.
func TestRunning(t *testing.T) {
	const snapshots, modify = csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME
	rows := []Controller{{Name: "always"}, {Name: "off", Off: true}, {Name: "able", Capability: snapshots}, {Name: "lacks", Capability: modify}, {Name: "unable", Unable: true}}
	var names []string
	for _, c := range Running(rows, map[csi.ControllerServiceCapability_RPC_Type]bool{snapshots: true}) {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"always", "able"}) {
		t.Errorf("run: %q", names)
	}
}
