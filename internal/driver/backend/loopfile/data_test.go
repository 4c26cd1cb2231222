package loopfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// pools are the filesystems that images can lie on.
var pools = map[string]func(t *testing.T) *rig{
	"xfs pool":   func(t *testing.T) *rig { return poolRig(t, filesystem.XFS, 2<<30, Config{}) },
	"btrfs pool": func(t *testing.T) *rig { return poolRig(t, filesystem.Btrfs, 2<<30, Config{}) },
	"ext4 pool":  func(t *testing.T) *rig { return poolRig(t, filesystem.Ext4, 2<<30, Config{}) },
}

func eachPoolAndKind(t *testing.T, test func(r *rig, c backend.Capability, bytes int64)) {
	for poolName, pool := range pools {
		for name, kind := range kinds {
			t.Run(poolName+"/"+name, func(t *testing.T) {
				if kind.capability.Type == backend.Mount {
					mayMake(t, filesystem.Type(name))
				}
				test(pool(t), kind.capability, kind.bytes)
			})
		}
	}
}

func (r *rig) snapshot(name string, source backend.ID) (backend.Snapshot, error) {
	return r.CreateSnapshot(r.Context(), backend.SnapshotRequest{ID: backend.IDOf(name), Name: name, Source: source})
}

func (r *rig) size(id backend.ID, source string) int64 {
	r.Helper()
	usage, err := r.Usage(r.Context(), id, source)
	if err != nil {
		r.Fatal(err)
	}
	return usage[0].Total
}

// What was written is in the snapshot, in a volume that begins with it, and in
// a clone, whatever becomes of the volume.
func TestDataSurvives(t *testing.T) {
	eachPoolAndKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.create(request("vol", c, bytes))
		source := r.stage(v.ID, c)
		write(r.TB, source, "first", some)

		s, err := r.snapshot("snap", v.ID)
		if fault.InUse.Is(err) && c.Type == backend.Block {
			// This pool cannot copy a device in one step, and says so.
			wantEntries(r.TB, r.temp)
			r.unstage(v.ID)
			s, err = r.snapshot("snap", v.ID)
			source = r.stage(v.ID, c)
		}
		if err != nil {
			r.Fatal(err)
		}
		if got, err := r.GetSnapshot(r.Context(), s.ID); err != nil || got != s || s.SizeBytes != bytes {
			r.Errorf("GetSnapshot = %+v, %v, want %+v", got, err, s)
		}
		write(r.TB, source, "second", some)
		if c.Type == backend.Block {
			r.unstage(v.ID)
		}

		clone := request("clone", c, 2*bytes)
		clone.Source.Volume = v.ID
		cloned := r.create(clone)
		restore := request("restored", c, 0)
		restore.Source.Snapshot = s.ID
		restored := r.create(restore)
		if restored.CapacityBytes != bytes || restored.Source != restore.Source {
			r.Errorf("restored: %+v", restored)
		}
		// All are mounted at once: filesystems with the same uuid would not mount.
		if c.Type == backend.Mount {
			r.stage(v.ID, c)
		}
		clonedAt, restoredAt := r.stage(cloned.ID, c), r.stage(restored.ID, c)
		wantContent(r.TB, restoredAt, "first", some)
		wantContent(r.TB, clonedAt, "second", some)
		if c.Type == backend.Mount {
			wantContent(r.TB, clonedAt, "first", some)
			if _, err := os.Stat(filepath.Join(restoredAt, "second")); err == nil {
				r.Error("the snapshot has what was written after it")
			}
		}
		if got := r.size(cloned.ID, clonedAt); got < bytes*3/2 {
			r.Errorf("the larger clone shows %d bytes of %d", got, 2*bytes)
		}
		r.unstage(v.ID)
		r.remove(v.ID)
		if err := r.DeleteSnapshot(r.Context(), s.ID); err != nil {
			r.Error(err)
		}
		r = r.restart()
		wantContent(r.TB, r.stage(restored.ID, c), "first", some)
		wantContent(r.TB, r.stage(cloned.ID, c), "second", some)
		for _, id := range []backend.ID{restored.ID, cloned.ID} {
			r.unstage(id)
			r.remove(id)
		}
		r.wantNoDevices()
		for _, dir := range r.folders() {
			wantEntries(r.TB, dir)
		}
	})
}

func TestASnapshotOutlivesItsVolume(t *testing.T) {
	r := newRig(t)
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 16*mebi))
	write(t, r.stage(v.ID, c), "file", some)
	s, err := r.snapshot("snap", v.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.unstage(v.ID)
	r.remove(v.ID)
	r = r.restart()
	ids, err := r.ListSnapshots(t.Context())
	if err != nil || len(ids) != 1 || ids[0] != s.ID {
		t.Errorf("ListSnapshots = %v, %v", ids, err)
	}
	restore := request("restored", mountOf(""), 0)
	restore.Source.Snapshot = s.ID
	wantContent(t, r.stage(r.create(restore).ID, c), "file", some)
}

// A copy has the filesystem of its source.
func TestACopyOfAnotherFilesystem(t *testing.T) {
	mayMake(t, filesystem.XFS)
	r := newRig(t)
	xfs := mountOf(filesystem.XFS)
	v := r.create(request("vol", xfs, 300*mebi))
	r.stage(v.ID, xfs)
	r.unstage(v.ID)
	clone := request("clone", mountOf(filesystem.Ext4), 300*mebi)
	clone.Source.Volume = v.ID
	if _, err := r.Create(t.Context(), clone); !fault.Invalid.Is(err) {
		t.Errorf("ext4 of xfs: %v, want an invalid argument", err)
	}
	wantEntries(t, r.temp)
	clone.Capabilities = []backend.Capability{mountOf("")}
	r.stage(r.create(clone).ID, mountOf(""))
}

func TestASmallerCopy(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", blockAccess, 4*mebi))
	clone := request("clone", blockAccess, 2*mebi)
	clone.Source.Volume = v.ID
	if _, err := r.Create(t.Context(), clone); !fault.OutOfRange.Is(err) {
		t.Errorf("%v, want out of range", err)
	}
	clone.Source = backend.Source{Snapshot: backend.IDOf("missing")}
	if _, err := r.Create(t.Context(), clone); !fault.NotFound.Is(err) {
		t.Errorf("a missing snapshot: %v, want not found", err)
	}
}

func TestExpand(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.create(request("vol", c, bytes))
		source := r.stage(v.ID, c)
		write(r.TB, source, "file", some)
		e, err := r.Expand(r.Context(), v.ID, backend.Range{Required: 2 * bytes})
		if err != nil || e.CapacityBytes != 2*bytes || e.NodeMustExpand != (c.Type == backend.Mount) {
			r.Fatalf("Expand = %+v, %v", e, err)
		}
		if e, err := r.Expand(r.Context(), v.ID, backend.Range{Required: bytes}); err != nil || e.CapacityBytes != 2*bytes {
			r.Errorf("Expand to less = %+v, %v", e, err)
		}
		if _, err := r.Expand(r.Context(), v.ID, backend.Range{Required: bytes, Limit: bytes}); !fault.OutOfRange.Is(err) {
			r.Errorf("Expand under a limit that is passed: %v", err)
		}
		grown, err := r.NodeExpand(r.Context(), backend.NodeExpansion{Volume: v.ID, Path: source, Access: c.Type})
		if fault.InUse.Is(err) && c.FSType == "ext4" && !filesystem.MayGrowMounted(filesystem.Ext4) {
			r.Logf("ext4 grows at the next stage here: %v", err)
			r.unstage(v.ID)
			source = r.stage(v.ID, c)
		} else if err != nil || grown != 2*bytes {
			r.Fatalf("NodeExpand = %d, %v", grown, err)
		}
		if got := r.size(v.ID, source); got < bytes*3/2 {
			r.Errorf("shows %d bytes of %d", got, 2*bytes)
		}
		wantContent(r.TB, source, "file", some)
		if _, err := r.NodeExpand(r.Context(), backend.NodeExpansion{Volume: v.ID, Path: source, Access: c.Type}); err != nil {
			r.Errorf("NodeExpand again: %v", err)
		}
		if got, err := r.Get(r.Context(), v.ID); err != nil || got.CapacityBytes != 2*bytes {
			r.Errorf("Get = %+v, %v", got, err)
		}
	})
}

// A volume that was expanded while no pod used it grows when it is staged.
func TestExpandUnstaged(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.create(request("vol", c, bytes))
		write(r.TB, r.stage(v.ID, c), "file", some)
		r.unstage(v.ID)
		if _, err := r.Expand(r.Context(), v.ID, backend.Range{Required: 2 * bytes}); err != nil {
			r.Fatal(err)
		}
		source := r.stage(v.ID, c)
		if got := r.size(v.ID, source); got < bytes*3/2 {
			r.Errorf("shows %d bytes of %d", got, 2*bytes)
		}
		wantContent(r.TB, source, "file", some)
	})
}
