package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/reclaim"
)

// releases remembers from which claim the watch has shown a volume to be released. A volume that is
// Released, and was not seen to become so, may be another claim's by now (I3).
type releases struct {
	mu   sync.Mutex
	from map[types.UID]types.UID // volume to claim
}

func newReleases() *releases { return &releases{from: map[types.UID]types.UID{}} }

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
