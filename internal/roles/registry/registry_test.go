package registry

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/kube"
)

// The cache keeps the fields that the enabled controllers read, and no others.
func TestTrimIsComposed(t *testing.T) {
	node := kube.Reads(func(from, to *corev1.Pod) { to.Spec.NodeName = from.Spec.NodeName })
	phase := kube.Reads(func(from, to *corev1.Pod) { to.Status.Phase = from.Status.Phase })
	trim := Trim([]Entry{{Fields: []*kube.Fields{node}}}, node, phase)
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

// A controller that does not run needs no permission.
func TestPermissionsFollowTheControllers(t *testing.T) {
	only := slices.DeleteFunc(All(), func(c Controller) bool { return c.Name != NameExpand })
	for _, p := range Permissions(only) {
		if p.Resource == "pods" || p.Verb == "create" && p.Resource != "events" {
			t.Errorf("%s asks for %s", NameExpand, p)
		}
	}
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] || seen[c.Alias] || CurrentName(c.Alias) != c.Name || CurrentName(c.Name) != c.Name {
			t.Errorf("%s and %s are not names of one controller", c.Name, c.Alias)
		}
		seen[c.Name], seen[c.Alias] = true, true
	}
}
