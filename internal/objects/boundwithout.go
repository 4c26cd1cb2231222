package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
)

// IsBoundWithoutVolume reports whether a claim counts as bound and names no volume: it is Lost, or
// about to be. No binder binds it to another volume, so none is provisioned for it. A claim that was
// copied with its annotations is the usual case: the API server drops the status of a new claim and
// keeps the annotation.
func IsBoundWithoutVolume(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[names.AnnBindCompleted]
	return claim.Spec.VolumeName == "" && (completed || claim.Status.Phase == corev1.ClaimLost)
}

// AboutBindCompleted says what the annotation bind-completed of a claim is, and what to do about a
// claim that has it and was never bound.
func AboutBindCompleted(claim *corev1.PersistentVolumeClaim) string {
	return fmt.Sprintf(
		"It has the annotation %s, which the controller writes when it binds a claim. If the claim is new or a copy, "+
			"remove the annotation: %s",
		names.AnnBindCompleted,
		shell.Command("kubectl -n %s annotate pvc %s %s-", claim.Namespace, claim.Name, names.AnnBindCompleted),
	)
}
