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
	uids map[string]types.UID // by name
}

func newReleased() *released { return &released{uids: map[string]types.UID{}} }

func (r *released) add(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids[pv.Name] = pv.UID
}

func (r *released) remove(pv *corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uids[pv.Name] == pv.UID {
		delete(r.uids, pv.Name)
	}
}

// before is the volume of the name that nothing is left to do for once it is being deleted, whatever the view says; "" for none.
// It must be asked before the view is read: what is forgotten by then, the view does not show any more.
func (r *released) before(name string) types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uids[name]
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
