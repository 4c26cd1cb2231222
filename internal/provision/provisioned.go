package provision

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/reconcile"
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

// onBoundOrDeleted calls the functions for each claim that the informer shows bound or deleted.
func onBoundOrDeleted(tell ...func(types.UID)) toolscache.ResourceEventHandler {
	return reconcile.InformerHandler(func(change reconcile.Change[*corev1.PersistentVolumeClaim]) {
		claim := change.Object()
		if !change.IsDeleted() && claim.Spec.VolumeName == "" {
			return
		}
		for _, t := range tell {
			t(claim.UID)
		}
	})
}
