package reclaim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/objects"
)

// Removal is what this process did to a PersistentVolume whose finalizer it removed. The zero value
// is that it did nothing.
type Removal struct {
	UID     types.UID
	Deleted bool   // the object too
	Version string // resourceVersion in the answer to the removal; empty while there is no answer
	Unsure  bool   // the write failed, perhaps with an effect
}

// Finishes reports whether nothing is left to do for the PersistentVolume, whatever this view of it
// shows. There is again something to do for a volume that was let go of and is not being deleted,
// and for one that got our finalizer after the removal: from a leader that does not know yet that it
// was replaced (H-18).
func (r Removal) Finishes(pv *corev1.PersistentVolume) bool {
	if r.Unsure {
		return r.UID == pv.UID && pv.DeletionTimestamp != nil && !HasFinalizer(pv)
	}
	again := HasFinalizer(pv) && r.Version != "" && objects.IsNewer(pv.ResourceVersion, r.Version)
	return r.UID == pv.UID && (r.Deleted || pv.DeletionTimestamp != nil) && !again
}
