package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/loopdev"
)

// The next start removes or completes the devices that a kill during a stage leaves.
func TestRecoverDevices(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	attach := func(id backend.ID) {
		t.Helper()
		device, err := loopdev.Attach(t.Context(), r.imageOf(id), loopdev.UntilDetached)
		if err != nil {
			t.Fatal(err)
		}
		_ = device.Release()
	}
	staged, block := r.create(request("staged", c, 16*mebi)), r.create(request("block", blockAccess, mebi))
	at, device := r.stage(staged.ID, c), r.stage(block.ID, blockAccess)
	attached := r.create(request("attached", c, 16*mebi))
	attach(attached.ID)
	unmounted := r.create(request("unmounted", c, 16*mebi))
	if err := r.writeRecord(unmounted.ID, record{Path: r.staging(unmounted.ID, c).Path, Access: backend.Mount, Filesystem: "ext4"}); err != nil {
		t.Fatal(err)
	}
	attach(unmounted.ID)
	recorded := r.create(request("recorded", c, 16*mebi))
	if err := r.writeRecord(recorded.ID, record{Path: r.staging(recorded.ID, c).Path, Access: backend.Block}); err != nil {
		t.Fatal(err)
	}
	gone := r.create(request("gone", c, 16*mebi))
	attach(gone.ID)
	if err := os.RemoveAll(r.volumeDir(gone.ID)); err != nil {
		t.Fatal(err)
	}

	r = r.restart()
	wantEntries(t, r.staged, "block.json", "staged.json")
	if got, err := r.Staged(t.Context(), staged.ID, at, backend.Mount); err != nil || got != at {
		t.Errorf("Staged = %s, %v", got, err)
	}
	if got, err := r.Staged(t.Context(), block.ID, r.staging(block.ID, c).Path, backend.Block); err != nil || got != device {
		t.Errorf("Staged = %s, %v, want %s", got, err, device)
	}
	if len(r.devices) != 2 {
		t.Errorf("%d devices are held, want 2", len(r.devices))
	}
	left := devicesBelow(t, r.state)
	for _, device := range left {
		defer device.Release()
	}
	if len(left) != 2 {
		t.Errorf("%d devices are left, want 2", len(left))
	}
	for _, id := range []backend.ID{attached.ID, unmounted.ID, recorded.ID} {
		r.stage(id, c)
	}
}

// A machine that loses its power can leave a record without content. After a boot nothing is
// staged, so such a record is removed. A volume with a device is staged, and its record is healed.
func TestRecoverWithARecordThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	lost, kept := r.create(request("lost", blockAccess, mebi)), r.create(request("kept", blockAccess, mebi))
	bind(t, r.stage(kept.ID, blockAccess), filepath.Join(r.dir, "target"))
	for _, id := range []backend.ID{lost.ID, kept.ID} {
		if err := os.WriteFile(r.recordPath(id), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = r.restart()
	wantEntries(t, r.staged, "kept.json")
	if err := r.Delete(t.Context(), kept.ID); !fault.InUse.Is(err) {
		t.Errorf("Delete of what is staged: %v, want in use", err)
	}
	r.stage(lost.ID, blockAccess)
	r.unstage(lost.ID)
	r.remove(lost.ID)
}

func TestRecoverSweeps(t *testing.T) {
	r := newRig(t)
	r.create(request("survivor", blockAccess, mebi))
	for _, path := range []string{
		filepath.Join(r.temp, "create-1", "image"), filepath.Join(r.temp, "file-1"),
		filepath.Join(r.trash, "vol-1", "vol", "image"),
	} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r = r.restart()
	wantEntries(t, r.temp)
	wantEntries(t, r.trash)
	wantEntries(t, r.volumes, "survivor")
}

// After a kill between freezing and thawing, the next start lets pods write again.
func TestRecoverThaws(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	v := r.create(request("vol", c, 16*mebi))
	at := r.stage(v.ID, c)
	fs, err := openAnywhere(r.held(v.ID), at)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	if err := os.WriteFile(filepath.Join(r.frozen, v.ID.String()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fs.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Thaw() })
	r = r.restart()
	wantEntries(t, r.frozen)
	if err := errors.Join(fs.Freeze(), fs.Thaw()); err != nil {
		t.Errorf("it is still frozen: %v", err)
	}
	write(t, at, "file", some)
}
