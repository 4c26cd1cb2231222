package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// finalizersRemoved has the volumes whose finalizer this process removed, until the informer shows
// them deleted. kube.OwnWrites cannot store these writes: the response to the patch that removes
// the last finalizer has the previous resourceVersion, at which the cache still shows the
// finalizer, and the response to a deletion has no object. Acting on that stale cache deletes the
// volume twice.
type finalizersRemoved struct {
	mu      sync.Mutex
	volumes map[string]reclaim.Removal // by name
}

func newReleased() *finalizersRemoved {
	return &finalizersRemoved{volumes: map[string]reclaim.Removal{}}
}

// add is called before our finalizer is removed.
func (r *finalizersRemoved) add(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes[pv.Name] = reclaim.Removal{UID: pv.UID}
}

// was stores the response, unless the volume is deleted by now.
func (r *finalizersRemoved) was(pv *corev1.PersistentVolume, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.volumes[pv.Name]; known.UID == pv.UID {
		known.Version = version
		r.volumes[pv.Name] = known
	}
}

// deleting is called before the object is deleted.
func (r *finalizersRemoved) deleting(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.volumes[pv.Name]
	if known.UID != pv.UID {
		known = reclaim.Removal{UID: pv.UID}
	}
	known.Deleted = true
	r.volumes[pv.Name] = known
}

// markUncertain is called when a write failed and may have had its effect: it is retried unless the
// cache shows the effect.
func (r *finalizersRemoved) markUncertain(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].UID == pv.UID {
		r.volumes[pv.Name] = reclaim.Removal{UID: pv.UID, Unsure: true}
	}
}

func (r *finalizersRemoved) remove(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].UID == pv.UID {
		delete(r.volumes, pv.Name)
	}
}

// before returns what was written to the named volume. Call it before the cache is read: an entry
// that is removed by then belongs to a volume that the cache does not have any more.
func (r *finalizersRemoved) before(name string) reclaim.Removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.volumes[name]
}

// volumeHandlers returns the PV event handlers in the order in which they must run: own writes
// first, removed finalizers last. In the other order a deletion would leave the own write alone,
// which looks like a volume to be deleted (U-7).
func (c *Controller) volumeHandlers() orderedHandlers {
	return orderedHandlers{c.Volumes.Handler(), c.finalizersRemoved.handler()}
}

// orderedHandlers run as one handler. An informer runs separate handlers independently.
type orderedHandlers []toolscache.ResourceEventHandler

func (all orderedHandlers) OnAdd(in any, first bool) {
	for _, one := range all {
		one.OnAdd(in, first)
	}
}

func (all orderedHandlers) OnUpdate(was, is any) {
	for _, one := range all {
		one.OnUpdate(was, is)
	}
}

func (all orderedHandlers) OnDelete(in any) {
	for _, one := range all {
		one.OnDelete(in)
	}
}

func (r *finalizersRemoved) handler() toolscache.ResourceEventHandler {
	return reconcile.InformerHandler(func(c reconcile.Change[*corev1.PersistentVolume]) {
		if c.IsDeleted() {
			r.remove(c.Old)
		}
	})
}
