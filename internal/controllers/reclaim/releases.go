package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/reclaim"
)

// releases remembers from which claim the watch has shown a volume to be released. A volume that is
// Released, and was not seen to become so, may be another claim's by now (I3).
type releases struct {
	mu   sync.Mutex
	from map[types.UID]types.UID // volume to claim
	seen string                  // the newest resourceVersion that the watch has told of; empty for none
}

func newReleases() *releases { return &releases{from: map[types.UID]types.UID{}} }

// see takes note that the watch has told of a version of a volume, before a key is enqueued by it.
func (r *releases) see(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if objects.IsNewer(pv.ResourceVersion, r.seen) {
		r.seen = pv.ResourceVersion
	}
}

// isComing reports whether the cache shows a version that the watch will tell of only now: the cache
// is filled before the handlers of its events run, and a claim's event may be handled in between.
func (r *releases) isComing(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen != "" && objects.IsNewer(pv.ResourceVersion, r.seen)
}

// note looks at a change of a volume of ours.
func (r *releases) note(was, is *corev1.PersistentVolume) {
	if !reclaim.IsRelease(was, is) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from[is.UID] = is.Spec.ClaimRef.UID
}

// have reports whether the volume was released from the claim that it names.
func (r *releases) have(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, ok := r.from[pv.UID]
	return ok && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == from
}

func (r *releases) forget(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.from, pv.UID)
}
