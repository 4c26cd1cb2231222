package provision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
)

// WithoutNode returns the live claim now without its selected node, so that the scheduler selects
// again (C-26). ok is false if nothing is to be written: the claim is gone (nil), has no selected
// node, or the scheduler has selected another node meanwhile.
func WithoutNode(now *corev1.PersistentVolumeClaim, node string) (changed *corev1.PersistentVolumeClaim, ok bool) {
	if now == nil || node == "" || now.Annotations[names.AnnSelectedNode] != node {
		return nil, false
	}
	changed = now.DeepCopy()
	delete(changed.Annotations, names.AnnSelectedNode)
	return changed, true
}
