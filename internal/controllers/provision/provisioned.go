package provision

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// provisionedClaims has the claims for which this process has provisioned a volume, until the
// informer shows them bound or deleted.
type provisionedClaims struct {
	mu   sync.Mutex
	uids map[types.UID]struct{}
}

func newProvisionedClaims() *provisionedClaims {
	return &provisionedClaims{uids: map[types.UID]struct{}{}}
}

func (f *provisionedClaims) add(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uids[uid] = struct{}{}
}

func (f *provisionedClaims) has(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.uids[uid]
	return ok
}

func (f *provisionedClaims) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uids, uid)
}

// claimSeen returns the claim of an informer event, also of a tombstone.
func claimSeen(in any) (*corev1.PersistentVolumeClaim, bool) {
	if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
		in = tombstone.Obj
	}
	claim, ok := in.(*corev1.PersistentVolumeClaim)
	return claim, ok
}

// onBoundOrDeleted calls the functions for each claim that the informer shows bound or deleted.
func onBoundOrDeleted(tell ...func(types.UID)) toolscache.ResourceEventHandler {
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
