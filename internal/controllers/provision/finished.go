package provision

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// finished remembers the claims that this process gave a volume, until the watch shows them bound
// or gone.
type finished struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

func newFinished() *finished { return &finished{uids: map[types.UID]struct{}{}} }

func (f *finished) add(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uids[uid] = struct{}{}
}

func (f *finished) has(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.uids[uid]
	return ok
}

func (f *finished) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uids, uid)
}

// claimSeen is the claim that a watch tells of, also of one whose deletion it has missed.
func claimSeen(in any) (*corev1.PersistentVolumeClaim, bool) {
	if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
		in = tombstone.Obj
	}
	claim, ok := in.(*corev1.PersistentVolumeClaim)
	return claim, ok
}

// settledClaims tells of the claims that the watch shows bound or gone.
func settledClaims(tell ...func(types.UID)) toolscache.ResourceEventHandler {
	see := func(in any, gone bool) {
		if claim, ok := claimSeen(in); ok && (gone || claim.Spec.VolumeName != "") {
			for _, t := range tell {
				t(claim.UID)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(in any) { see(in, false) },
		UpdateFunc: func(_, in any) { see(in, false) },
		DeleteFunc: func(in any) { see(in, true) },
	}
}
