package reclaim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
)

// Removal is what this process wrote to a PersistentVolume when it removed the finalizer. The zero
// value is that it wrote nothing.
type Removal struct {
	UID     types.UID
	Deleted bool   // the object was deleted, too
	Version string // resourceVersion in the response; empty without a response
	Unsure  bool   // the write failed, and may have had its effect
}

// Finishes reports whether nothing is left to do for the PersistentVolume, even if the cached
// object is stale. There is again something to do if a retained volume is not terminating, or if
// the volume got our finalizer after the removal, from a replaced leader (H-18).
func (r Removal) Finishes(pv *corev1.PersistentVolume) bool {
	if r.Unsure {
		return r.UID == pv.UID && pv.DeletionTimestamp != nil && !HasFinalizer(pv)
	}
	again := HasFinalizer(pv) && r.Version != "" && objects.IsNewer(pv.ResourceVersion, r.Version)
	return r.UID == pv.UID && (r.Deleted || pv.DeletionTimestamp != nil) && !again
}
