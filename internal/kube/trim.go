package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

const annLastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Trim is a cache transform that drops what no decision ever reads, and that upstream keeps (external-provisioner.md 2.2,
// #587): field ownership, the applied configuration, and labels and messages of volumes and claims.
//
// An object that was trimmed must never be sent back whole; write patches.
func Trim(in any) (any, error) {
	object, err := meta.Accessor(in)
	if err != nil {
		return in, nil // a tombstone of the cache, not an object
	}
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[annLastApplied] != "" {
		delete(annotations, annLastApplied)
	}
	switch o := in.(type) {
	case *corev1.PersistentVolumeClaim:
		o.Labels = nil
		o.Status = corev1.PersistentVolumeClaimStatus{Phase: o.Status.Phase}
	case *corev1.PersistentVolume:
		o.Labels = nil
		o.Status = corev1.PersistentVolumeStatus{Phase: o.Status.Phase}
	case *corev1.Node:
		o.Status = corev1.NodeStatus{}
		o.Spec = corev1.NodeSpec{}
		o.Annotations = nil
	}
	return in, nil
}
