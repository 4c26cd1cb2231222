package provision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// C-26: only the node that the attempt was made for is removed.
func TestWithoutNode(t *testing.T) {
	on := func(node string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnSelectedNode: node, "a": "b"}}}
	}
	for name, tc := range map[string]struct {
		now  *corev1.PersistentVolumeClaim
		node string
		ok   bool
	}{
		"the claim still has the node":             {on("n1"), "n1", true},
		"the scheduler has selected another node":  {on("n2"), "n1", false},
		"the claim has no selected node any more":  {&corev1.PersistentVolumeClaim{}, "n1", false},
		"the claim is gone":                        {nil, "n1", false},
		"no node was selected when it was decided": {on("n1"), "", false},
	} {
		changed, ok := WithoutNode(tc.now, tc.node)
		if ok != tc.ok {
			t.Errorf("%s: %v", name, ok)
			continue
		}
		if !ok {
			continue
		}
		if _, has := changed.Annotations[names.AnnSelectedNode]; has || changed.Annotations["a"] != "b" {
			t.Errorf("%s: annotations are %v", name, changed.Annotations)
		}
		if tc.now.Annotations[names.AnnSelectedNode] != tc.node {
			t.Errorf("%s: the input was changed", name)
		}
	}
}
