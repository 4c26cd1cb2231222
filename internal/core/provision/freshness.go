package provision

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/intent"
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

// NeedsLiveVolume reports whether the cache is not fresh enough to say that the PersistentVolume of
// a claim exists or not. provisioned says that this process has provisioned a volume for the claim.
//   - With a journal entry, a PersistentVolume in a stale cache may be gone together with its
//     volume, and a repeated call has made another volume. or the cache does not have yet what a
//     write with a lost answer, or a previous leader, created.
//   - Where this process provisioned the volume and the cache does not have it, the call would be
//     repeated.
func NeedsLiveVolume(cached *corev1.PersistentVolume, entry *intent.Entry, provisioned bool) bool {
	return entry != nil || cached == nil && provisioned
}

// NeedsLiveClaimWithoutVolume reports whether the claim must be read live since this process has
// provisioned its volume, which does not exist any more: it was deleted, or the cached claim is
// stale. With a stale claim the volume would be created again for a claim that is gone (H-5).
func NeedsLiveClaimWithoutVolume(volume *corev1.PersistentVolume, provisioned bool) bool {
	return volume == nil && provisioned
}
