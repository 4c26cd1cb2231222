package reclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// View says whether the cached PersistentVolume may decide about the deletion of its volume.
type View int

const (
	// ViewSuffices means that the cached object decides: it leads to no deletion.
	ViewSuffices View = iota
	// ViewIsFresh means that the cached object decides and proves that the claim is gone: this
	// process observed the release.
	ViewIsFresh
	// ViewNeedsLive means that the object must be read live first.
	ViewNeedsLive
)

// ViewOf returns the view for a cached PersistentVolume. sawRelease says that an informer of this
// process showed its release, and that no deletion has failed since. An ordinary deletion follows
// the release at once and costs no read. The object is read live if the release is old, if a
// deletion failed, or if its claim is another one than it was released from (I3).
func ViewOf(cached *corev1.PersistentVolume, driver string, sawRelease bool, now time.Time) View {
	switch {
	case Owner(cached) != driver, HasNothingToDo(cached), !MayReclaim(cached):
		return ViewSuffices
	case sawRelease && IsFresh(cached, now):
		return ViewIsFresh
	}
	return ViewNeedsLive
}

// IsClaimUncached reports whether the cache lacks the claim of a PersistentVolume that the API
// server has: it has none of the name, or one with another uid.
func IsClaimUncached(ref *corev1.ObjectReference, cached *corev1.PersistentVolumeClaim) bool {
	return cached == nil || ref.UID != "" && cached.UID != ref.UID
}
