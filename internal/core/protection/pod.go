package protection

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/ephemeral"
)

// Uses reports whether the pod holds the claim. Only a pod that has a node does: a kubelet starts
// no pod with a claim that is being deleted, so one without a node is no reason to wait, and one
// with a node may have started before. It holds the claim until the pod is gone, even when it has
// finished: its volumes may still be mounted (3.1).
//
// The claim of a generic ephemeral volume is let go of when the kubelet is done with the pod, or
// else the two would wait for each other: the pod is the claim's owner and goes after it where
// deletion is in the foreground.
func Uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" || pod.Namespace != claim.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case v.Ephemeral != nil && !ShutDown(pod) && ephemeral.ClaimName(pod, v.Name) == claim.Name &&
			metav1.IsControlledBy(claim, pod):
			return true
		}
	}
	return false
}

// ClaimNames are the claims that the pod names: those that [Uses] can be true of.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, ephemeral.ClaimName(pod, v.Name))
		}
	}
	return names
}

// ShutDown reports whether the kubelet is done with the pod and has unmounted its volumes, or
// it was deleted by force.
func ShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
