package loopfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// crashed returns a volume whose filesystem was in use at a power loss: synced data is only in its
// log.
func (r *rig) crashed(name string, c backend.Capability, bytes int64) backend.Volume {
	r.Helper()
	v := r.create(request(name, c, bytes))
	write(r.TB, r.stage(v.ID, c), "before", some)
	r.unstage(v.ID)
	write(r.TB, r.stage(v.ID, c), "file", some)
	source, err := image.Open(r.imageOf(v.ID))
	if err != nil {
		r.Fatal(err)
	}
	defer source.Close()
	kept := filepath.Join(r.dir, "kept")
	if _, err := r.copyContent(r.Context(), source, kept); err != nil {
		r.Fatal(err)
	}
	r.unstage(v.ID)
	if err := os.Rename(kept, r.imageOf(v.ID)); err != nil {
		r.Fatal(err)
	}
	return v
}

// A new uuid must not lose the data in the log of a filesystem that was not unmounted. Source and
// copy must mount at the same time: two btrfs with one uuid can only on new kernels.
func TestACopyOfWhatWasNotUnmounted(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.crashed("vol", c, bytes)
		clone := request("clone", c, 2*bytes)
		clone.Source.Volume = v.ID
		copied := r.create(clone)
		source, cloned := r.stage(v.ID, c), r.stage(copied.ID, c)
		wantContent(r.TB, source, "file", some)
		wantContent(r.TB, cloned, "file", some)
		if c.Type == backend.Mount {
			wantContent(r.TB, cloned, "before", some)
		}
	})
}

// A copy of a block volume has exactly the bytes of its source, whatever the pod stores there.
func TestACopyOfADeviceIsTheSame(t *testing.T) {
	mayMake(t, filesystem.Btrfs)
	r := newRig(t)
	v := r.create(request("vol", blockAccess, 128*mebi))
	if err := filesystem.Make(t.Context(), filesystem.Btrfs, r.imageOf(v.ID), filesystem.Sparse); err != nil {
		t.Fatal(err)
	}
	clone := request("clone", blockAccess, 0)
	clone.Source.Volume = v.ID
	copied := r.create(clone)
	was, err := os.ReadFile(r.imageOf(v.ID))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(r.imageOf(copied.ID))
	if err != nil || !bytes.Equal(was, is) {
		t.Errorf("the copy of the device differs from it (%v)", err)
	}
}

// A copy of a copy: all three are mounted at once.
func TestACopyOfACopy(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		v := r.create(request("vol", c, bytes))
		write(r.TB, r.stage(v.ID, c), "file", some)
		r.unstage(v.ID)
		var at []string
		for _, name := range []string{"one", "two"} {
			clone := request(name, c, 0)
			clone.Source.Volume = v.ID
			v = r.create(clone)
		}
		for _, name := range []string{"vol", "one", "two"} {
			at = append(at, r.stage(backend.IDOf(name), c))
		}
		for _, source := range at {
			wantContent(r.TB, source, "file", some)
		}
	})
}
