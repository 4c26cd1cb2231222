package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// memory has what this process knows of PersistentVolumes beyond the API objects and its own writes,
// which the overlay has. The zero value is that of a fresh process.
type memory struct {
	mu   sync.Mutex
	seen string // newest resourceVersion in an event; empty for none
	// releasedFrom has the claims from which the informer showed volumes to be released. A Released
	// volume whose release was not observed may belong to another claim by now (I3).
	releasedFrom map[types.UID]types.UID
	// reclaimed are the volumes that are deleted in the backend, noted before the request that removes
	// the finalizer: its event may come before its response, and the response may be lost.
	reclaimed map[types.UID]bool
}

// sees notes an event before it enqueues a key, so that the run needs no live read. was is nil for a
// volume that is new to the informer.
func (m *memory) sees(was, is *corev1.PersistentVolume) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if objects.IsNewer(is.ResourceVersion, m.seen) {
		m.seen = is.ResourceVersion
	}
	if was != nil && reclaim.IsRelease(was, is) {
		if m.releasedFrom == nil {
			m.releasedFrom = map[types.UID]types.UID{}
		}
		m.releasedFrom[is.UID] = is.Spec.ClaimRef.UID
	}
}

// reclaims notes that a volume is deleted in the backend.
func (m *memory) reclaims(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reclaimed == nil {
		m.reclaimed = map[types.UID]bool{}
	}
	m.reclaimed[uid] = true
}

// protects notes that a volume has our finalizer again, or is gone.
func (m *memory) protects(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reclaimed, uid)
}

// forget drops a volume that is gone.
func (m *memory) forget(uid types.UID) {
	m.protects(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.releasedFrom, uid)
}

// knows returns what is known of a volume. The cache is updated before the event handlers run, and a
// claim's event may be handled in between: then the event of this version is still to come.
func (m *memory) knows(pv *corev1.PersistentVolume) reclaim.Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reclaim.Known{
		ReleasedFrom: m.releasedFrom[pv.UID], Reclaimed: m.reclaimed[pv.UID],
		IsComing: m.seen != "" && objects.IsNewer(pv.ResourceVersion, m.seen),
	}
}
