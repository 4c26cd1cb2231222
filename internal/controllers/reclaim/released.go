package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/reclaim"
)

// released remembers the volumes that this process took its finalizer from, until the watch shows
// them gone. kube.OwnWrites cannot: the answer to the patch that takes away the last finalizer
// carries the resource version from before it, under which the watch still shows the finalizer, and
// the answer to a deletion says nothing of the object. Acting on such a view deletes the volume a
// second time.
type released struct {
	mu      sync.Mutex
	volumes map[string]reclaim.Removal // by name
}

func newReleased() *released { return &released{volumes: map[string]reclaim.Removal{}} }

// add is done before our finalizer is taken away.
func (r *released) add(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes[pv.Name] = reclaim.Removal{UID: pv.UID}
}

// was notes the answer, unless the volume is gone by now.
func (r *released) was(pv *corev1.PersistentVolume, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.volumes[pv.Name]; known.UID == pv.UID {
		known.Version = version
		r.volumes[pv.Name] = known
	}
}

// deleting is done before the object is deleted.
func (r *released) deleting(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.volumes[pv.Name]
	if known.UID != pv.UID {
		known = reclaim.Removal{UID: pv.UID}
	}
	known.Deleted = true
	r.volumes[pv.Name] = known
}

// doubt is done when a write failed, perhaps with an effect: it is to be tried again, unless the
// view shows that all is done.
func (r *released) doubt(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].UID == pv.UID {
		r.volumes[pv.Name] = reclaim.Removal{UID: pv.UID, Unsure: true}
	}
}

func (r *released) remove(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].UID == pv.UID {
		delete(r.volumes, pv.Name)
	}
}

// before is what was done to the volume of the name. It must be asked before the view is read: what
// is forgotten by then, the view does not show any more.
func (r *released) before(name string) reclaim.Removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.volumes[name]
}

// watched is who is told of what the watch shows of volumes: first those who know what was written
// to one, and then those who know that it is dealt with. Told in another order, its end would leave
// what was written, and that looks like a volume to be deleted (U-7).
func (c *Controller) watched() inOrder { return inOrder{c.Volumes.Handler(), c.released.handler()} }

// inOrder is told as one. An informer tells each that it has been given at a time of its own.
type inOrder []toolscache.ResourceEventHandler

func (all inOrder) OnAdd(in any, first bool) {
	for _, one := range all {
		one.OnAdd(in, first)
	}
}

func (all inOrder) OnUpdate(was, is any) {
	for _, one := range all {
		one.OnUpdate(was, is)
	}
}

func (all inOrder) OnDelete(in any) {
	for _, one := range all {
		one.OnDelete(in)
	}
}

func (r *released) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
		if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = tombstone.Obj
		}
		if pv, ok := in.(*corev1.PersistentVolume); ok {
			r.remove(pv)
		}
	}}
}
