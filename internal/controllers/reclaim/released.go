package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/kube"
)

// released remembers the volumes that this process took its finalizer from, until the watch shows
// them gone. kube.OwnWrites cannot: the answer to the patch that takes away the last finalizer
// carries the resource version from before it, under which the watch still shows the finalizer, and
// the answer to a deletion says nothing of the object. Acting on such a view deletes the volume a
// second time.
type released struct {
	mu      sync.Mutex
	volumes map[string]release // by name
}

// release is of a volume that our finalizer was taken from.
type release struct {
	uid     types.UID
	deleted bool   // the object too
	version string // in the answer to that; empty while it is not here
	unsure  bool   // the answer was none, so it may have been taken or not
}

// finishes reports whether nothing is left to do for the volume, whatever this view of it says. One
// that was let go, and is not being deleted, may come to be ours again; and so may one that has our
// finalizer later than we took it away, from a leader that does not know yet that it was replaced
// (H-18).
func (r release) finishes(pv *corev1.PersistentVolume) bool {
	if r.unsure {
		return r.uid == pv.UID && pv.DeletionTimestamp != nil && !reclaim.HasFinalizer(pv)
	}
	again := reclaim.HasFinalizer(pv) && r.version != "" && kube.Newer(pv.ResourceVersion, r.version)
	return r.uid == pv.UID && (r.deleted || pv.DeletionTimestamp != nil) && !again
}

func newReleased() *released { return &released{volumes: map[string]release{}} }

// add is done before our finalizer is taken away.
func (r *released) add(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes[pv.Name] = release{uid: pv.UID}
}

// was notes the answer, unless the volume is gone by now.
func (r *released) was(pv *corev1.PersistentVolume, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.volumes[pv.Name]; known.uid == pv.UID {
		known.version = version
		r.volumes[pv.Name] = known
	}
}

// deleting is done before the object is deleted.
func (r *released) deleting(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.volumes[pv.Name]
	if known.uid != pv.UID {
		known = release{uid: pv.UID}
	}
	known.deleted = true
	r.volumes[pv.Name] = known
}

// doubt is done when a write failed, perhaps with an effect: it is to be tried again, unless the
// view shows that all is done.
func (r *released) doubt(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].uid == pv.UID {
		r.volumes[pv.Name] = release{uid: pv.UID, unsure: true}
	}
}

func (r *released) remove(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volumes[pv.Name].uid == pv.UID {
		delete(r.volumes, pv.Name)
	}
}

// before is what was done to the volume of the name. It must be asked before the view is read: what
// is forgotten by then, the view does not show any more.
func (r *released) before(name string) release {
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
