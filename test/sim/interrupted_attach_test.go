package sim

import (
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/test/sim/view"
)

// I12: a VolumeAttachment is created and ends while its watch is interrupted, so no event says that it is gone. The
// attacher's finalizer of the PersistentVolume goes all the same.
func TestAttachmentThatNoWatchShows(t *testing.T) {
	const name = "three pods on one node, in one process"
	i := slices.IndexFunc(attachWorkloads, func(w workload) bool { return w.name == name })
	work := attachWorkloads[i]
	calm := run(t, work, schedule{}, mutant{})
	for n := 1; n <= calm.ops; n++ {
		for _, relist := range []bool{false, true} {
			fault := view.Fault{Kind: &storagev1.VolumeAttachment{}, Frozen: true, Relist: relist}
			s := schedule{views: []view.Fault{fault}, breaksAt: n, dropVolumesAt: n}
			for _, violation := range run(t, work, s, mutant{}).violations {
				t.Errorf("%s: %s", s, violation)
			}
		}
	}
}
