package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TrimPod is a cache transform that keeps of a pod its claims, its node or why it has none, its
// phase and its deletion. A cluster has more pods than other watched objects, and most fields of a
// pod do not concern volumes.
//
// The template of an ephemeral volume's claim stays only while the claim may have to be created.
func TrimPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil // a tombstone of the cache
	}
	ends := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed
	*pod = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shared(pod.Namespace), Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: shared(pod.Spec.NodeName), Volumes: claimVolumes(pod.Spec.Volumes, ends)},
		Status: corev1.PodStatus{Phase: shared(pod.Status.Phase), Conditions: unscheduled(pod)},
	}
	return pod, nil
}

// unscheduled returns the condition that says why a pod has no node; nil for a scheduled pod.
func unscheduled(pod *corev1.Pod) []corev1.PodCondition {
	if pod.Spec.NodeName != "" {
		return nil
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return []corev1.PodCondition{{
				Type: shared(c.Type), Status: shared(c.Status), Message: strings.Clone(c.Message),
			}}
		}
	}
	return nil
}

// claimVolumes returns the volumes that are claims, in a slice of exactly that length.
func claimVolumes(all []corev1.Volume, ends bool) []corev1.Volume {
	n := 0
	for i := range all {
		if all[i].PersistentVolumeClaim != nil || all[i].Ephemeral != nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	kept := make([]corev1.Volume, 0, n)
	for i := range all {
		one := corev1.Volume{Name: shared(all[i].Name)}
		switch v := &all[i]; {
		case v.PersistentVolumeClaim != nil:
			one.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: v.PersistentVolumeClaim.ClaimName,
			}
		case v.Ephemeral != nil && ends:
			one.Ephemeral = &corev1.EphemeralVolumeSource{}
		case v.Ephemeral != nil:
			one.Ephemeral = v.Ephemeral
		default:
			continue
		}
		kept = append(kept, one)
	}
	return kept
}
