package protection

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
)

// Uses reports whether the pod keeps the claim from being removed. Only a scheduled pod does: a
// kubelet starts no pod with a terminating claim, but a pod with a node may have started before. It
// keeps the claim until the pod is gone, also after it has finished, since its volumes may still be
// mounted (3.1).
//
// The claim of a generic ephemeral volume is free as soon as the kubelet has shut the pod down. The
// pod owns the claim and, with foreground deletion, waits for it, so the two would wait for each
// other.
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

// ClaimNames returns the claims that the pod names, which are those for which [Uses] can be true.
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

// ShutDown reports whether the kubelet has ended the pod and unmounted its volumes, or the pod was
// deleted by force.
func ShutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
