package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// observedReleases has the claims from which the informer showed volumes to be released. A Released
// volume whose release was not observed may belong to another claim by now (I3).
type observedReleases struct {
	mu   sync.Mutex
	from map[types.UID]types.UID // volume to claim
	seen string                  // newest resourceVersion in an event; empty for none
}

func newReleases() *observedReleases { return &observedReleases{from: map[types.UID]types.UID{}} }

// see stores the resourceVersion of an event, before it enqueues a key.
func (r *observedReleases) see(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if objects.IsNewer(pv.ResourceVersion, r.seen) {
		r.seen = pv.ResourceVersion
	}
}

// isComing reports whether the cache has a version whose event is still to come: the cache is
// updated before the event handlers run, and a claim's event may be handled in between.
func (r *observedReleases) isComing(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen != "" && objects.IsNewer(pv.ResourceVersion, r.seen)
}

// note stores the update if it is the release of a volume.
func (r *observedReleases) note(was, is *corev1.PersistentVolume) {
	if !reclaim.IsRelease(was, is) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from[is.UID] = is.Spec.ClaimRef.UID
}

// have reports whether the release of the volume from the claim in its claimRef was observed.
func (r *observedReleases) have(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	from, ok := r.from[pv.UID]
	return ok && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == from
}

func (r *observedReleases) forget(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.from, pv.UID)
}
