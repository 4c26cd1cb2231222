package reclaim

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// released remembers the volumes that this process took its finalizer from, until the watch shows them gone. kube.Recent cannot:
// the answer to the patch that takes away the last finalizer carries the resource version from before it, under which the watch
// still shows the finalizer. Acting on that view deletes the volume a second time.
type released struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

func newReleased() *released { return &released{uids: map[types.UID]struct{}{}} }

func (r *released) add(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids[uid] = struct{}{}
}

func (r *released) remove(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.uids, uid)
}

// done reports whether nothing is left to do for the volume: it is being deleted, and our finalizer is off, whatever the view says.
func (r *released) done(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.uids[pv.UID]
	return ok && pv.DeletionTimestamp != nil
}

func (r *released) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
		if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = tombstone.Obj
		}
		if pv, ok := in.(*corev1.PersistentVolume); ok {
			r.remove(pv.UID)
		}
	}}
}
