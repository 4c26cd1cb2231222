package provision

import (
	corev1 "k8s.io/api/core/v1"

	intent "github.com/purser-csi/purser/internal/journal/rules"
)

// NeedsLiveClaim reports whether the cached claim is not fresh enough to decide about its journal
// entry, so that the claim is read from the API server. A CreateVolume is undone, or taken as done,
// only by a live read:
//   - the cache may not have the claim yet;
//   - the cache may show the claim bound long after it and its volume are gone, and a repeated call
//     has made another volume.
func NeedsLiveClaim(cached *corev1.PersistentVolumeClaim, entry *intent.Entry) bool {
	return entry != nil && (cached == nil || cached.Spec.VolumeName != "")
}

// NeedsLiveVolume reports whether the cache is too stale to say whether the PersistentVolume of a
// claim exists. provisioned says that this process has provisioned a volume for the claim.
//   - With a journal entry, the cached PersistentVolume may be deleted together with its volume, and
//     a repeated call has created another volume. Or the cache does not have yet the PersistentVolume
//     of a previous leader, or of a write without an answer.
//   - Without the cached PersistentVolume of a volume that this process provisioned, CreateVolume
//     would be repeated.
func NeedsLiveVolume(cached *corev1.PersistentVolume, entry *intent.Entry, provisioned bool) bool {
	return entry != nil || cached == nil && provisioned
}

// NeedsLiveClaimWithoutVolume reports whether the claim must be read live because the volume that
// this process provisioned for it does not exist any more: the volume was deleted, or the cached
// claim is stale. A stale claim may be deleted, and would get a new volume (H-5).
func NeedsLiveClaimWithoutVolume(volume *corev1.PersistentVolume, provisioned bool) bool {
	return volume == nil && provisioned
}
