package reclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// View says how fresh the view of a PersistentVolume is, and must be, for the decision whether to
// delete its volume.
type View int

const (
	// ViewSuffices means that the cached object decides: nothing is deleted whatever it is by now.
	ViewSuffices View = iota
	// ViewIsFresh means that the cached object decides and proves that the claim is gone: this
	// process has seen the release.
	ViewIsFresh
	// ViewNeedsLive means that the object is read from the API server first.
	ViewNeedsLive
)

// ViewOf returns how fresh the cached PersistentVolume is. sawRelease says that a watch of this
// process has shown its release, and that no deletion has failed since. An ordinary deletion
// follows at once upon the release and costs no read. The object is read live when the release is
// old, when a deletion failed, or when the claim is another one than the object was released from
// (I3).
func ViewOf(cached *corev1.PersistentVolume, driver string, sawRelease bool, now time.Time) View {
	switch {
	case Owner(cached) != driver, Rests(cached), !MayReclaim(cached):
		return ViewSuffices
	case sawRelease && IsFresh(cached, now):
		return ViewIsFresh
	}
	return ViewNeedsLive
}

// IsClaimUnseen reports whether the cache does not show the claim of a PersistentVolume that the
// API server has: the cache has none of the name, or one with another uid.
func IsClaimUnseen(ref *corev1.ObjectReference, cached *corev1.PersistentVolumeClaim) bool {
	return cached == nil || ref.UID != "" && cached.UID != ref.UID
}
