package loopfile

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

const some = 1 << 20

// kinds are what a volume can be.
var kinds = map[string]struct {
	capability backend.Capability
	bytes      int64
}{
	"ext4":  {mountOf(filesystem.Ext4), 64 * mebi},
	"xfs":   {mountOf(filesystem.XFS), 300 * mebi},
	"btrfs": {mountOf(filesystem.Btrfs), 128 * mebi},
	"block": {blockAccess, 64 * mebi},
}

func eachKind(t *testing.T, test func(r *rig, c backend.Capability, bytes int64)) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if kind.capability.Type == backend.Mount {
				mayMake(t, filesystem.Type(name))
			}
			test(newRig(t), kind.capability, kind.bytes)
		})
	}
}

func TestTheLifeOfAVolume(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.create(request("vol", c, bytes))
		if v.CapacityBytes != bytes {
			r.Errorf("capacity %d, want %d", v.CapacityBytes, bytes)
		}
		write(r.TB, r.stage(v.ID, c), "file", some)
		r.stage(v.ID, c) // repeated
		r.unstage(v.ID)
		r.unstage(v.ID) // repeated
		r.wantNoDevices()
		wantContent(r.TB, r.stage(v.ID, c), "file", some)
		r = r.restart()
		wantContent(r.TB, r.stage(v.ID, c), "file", some)
		r.unstage(v.ID)
		r.remove(v.ID)
		r.remove(v.ID) // repeated
		r.wantNoDevices()
		for _, dir := range r.folders() {
			wantEntries(r.TB, dir)
		}
	})
}
