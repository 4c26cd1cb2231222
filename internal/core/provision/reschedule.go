package provision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
)

// WithoutNode returns the claim without its selected node, so that the scheduler selects a node
// again (C-26). now is the claim as the API server has it; nil when it does not exist. ok is false
// when nothing is to be written: the claim is gone, has no selected node any more, or the scheduler
// has selected another node meanwhile, which stays.
func WithoutNode(now *corev1.PersistentVolumeClaim, node string) (changed *corev1.PersistentVolumeClaim, ok bool) {
	if now == nil || node == "" || now.Annotations[names.AnnSelectedNode] != node {
		return nil, false
	}
	changed = now.DeepCopy()
	delete(changed.Annotations, names.AnnSelectedNode)
	return changed, true
}
