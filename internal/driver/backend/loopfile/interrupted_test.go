package loopfile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// mkfs was killed, or the machine stopped.
func TestAnInterruptedMkfsIsDoneAgain(t *testing.T) {
	eachKind(t, func(r *rig, c backend.Capability, bytes int64) {
		if c.Type == backend.Block {
			return
		}
		v := r.create(request("vol", c, bytes))
		interrupt := func() {
			r.Helper()
			if err := os.WriteFile(r.formattingPath(v.ID), nil, 0o600); err != nil {
				r.Fatal(err)
			}
			write(r.TB, r.imageOf(v.ID), "half a filesystem", some)
		}
		interrupt()
		// A copy has no mark, so it must not have the half either.
		clone := request("clone", c, bytes)
		clone.Source.Volume = v.ID
		r.stage(r.create(clone).ID, c)
		interrupt()
		r = r.restart()
		write(r.TB, r.stage(v.ID, c), "file", some)
		r.unstage(v.ID)
		wantEntries(r.TB, r.volumeDir(v.ID), imageFile, volumeFile)
		wantContent(r.TB, r.stage(v.ID, c), "file", some)
	})
}

// After an interrupted mkfs the volume is used as a block device: the data of its pod must not be
// taken for leftovers of mkfs.
func TestAnInterruptedMkfsAndThenADevice(t *testing.T) {
	r := newRig(t)
	q := request("vol", blockAccess, 16*mebi)
	q.Capabilities = append(q.Capabilities, mountOf(filesystem.Ext4))
	v := r.create(q)
	if err := os.WriteFile(r.formattingPath(v.ID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, r.stage(v.ID, blockAccess), "data", some)
	r.unstage(v.ID)
	if _, err := r.snapshot("snap", v.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Stage(t.Context(), r.staging(v.ID, mountOf(""))); !fault.Incompatible.Is(err) {
		t.Errorf("as a mount: %v, want incompatible", err)
	}
	wantContent(t, r.stage(v.ID, blockAccess), "data", some)
}

// The undo is interrupted as well, after it has truncated the image.
func TestAnInterruptedUndoingKeepsTheSize(t *testing.T) {
	r := newRig(t)
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 16*mebi))
	write(t, r.stage(v.ID, c), "file", some)
	r.unstage(v.ID)
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 32 * mebi}); err != nil {
		t.Fatal(err)
	}
	// Too short to undo anything: it was killed before it wrote.
	if err := os.WriteFile(r.undoPath(v.ID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.settle(ctx, v.ID, settings{}); err == nil {
		t.Fatal("the undoing was not interrupted")
	}
	if err := os.Truncate(r.imageOf(v.ID), 16*mebi); err != nil {
		t.Fatal(err)
	}
	r = r.restart()
	at := r.stage(v.ID, c)
	if got, err := r.Get(t.Context(), v.ID); err != nil || got.CapacityBytes != 32*mebi {
		t.Errorf("it has %d bytes, %v", got.CapacityBytes, err)
	}
	wantContent(t, at, "file", some)
	r.unstage(v.ID)
	wantEntries(t, r.volumeDir(v.ID), imageFile, volumeFile)
}

// After resize2fs the next expansion is not refused, and e2fsck finds no error.
func TestGrownAgainAndAgain(t *testing.T) {
	r := newRig(t)
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 4*mebi))
	write(t, r.stage(v.ID, c), "file", some)
	r.unstage(v.ID)
	for _, bytes := range []int64{6 * mebi, 11 * mebi, 40 * mebi} {
		if err := os.Truncate(r.imageOf(v.ID), bytes); err != nil {
			t.Fatal(err)
		}
		undo := filepath.Join(r.dir, "undo")
		if err := filesystem.GrowUnmounted(t.Context(), r.imageOf(v.ID), undo); err != nil {
			t.Fatalf("to %d bytes: %v", bytes, err)
		}
		if err := os.Remove(undo); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("e2fsck", "-f", "-n", r.imageOf(v.ID)).CombinedOutput(); err != nil {
			t.Errorf("e2fsck at %d bytes: %v: %s", bytes, err, out)
		}
	}
	wantContent(t, r.stage(v.ID, c), "file", some)
	r.unstage(v.ID)
}

// resize2fs was killed, in whichever step it was.
func TestAnInterruptedGrowingIsUndone(t *testing.T) {
	r := newRig(t)
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 16*mebi))
	write(t, r.stage(v.ID, c), "file", some)
	r.unstage(v.ID)
	before, err := os.ReadFile(r.imageOf(v.ID))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 32 * mebi}); err != nil {
		t.Fatal(err)
	}
	const rounds = 40
	begun := time.Now()
	if err := filesystem.GrowUnmounted(t.Context(), r.imageOf(v.ID), filepath.Join(r.dir, "undo")); err != nil {
		t.Fatal(err)
	}
	whole, undone := time.Since(begun), 0
	for round := range rounds {
		write := func() error {
			return errors.Join(os.WriteFile(r.imageOf(v.ID), before, 0o600), os.Truncate(r.imageOf(v.ID), 32*mebi))
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(round)/rounds)
		_ = filesystem.GrowUnmounted(ctx, r.imageOf(v.ID), r.undoPath(v.ID))
		cancel()
		if exists(r.undoPath(v.ID)) {
			undone++
		}
		at := r.stage(v.ID, c)
		wantContent(t, at, "file", some)
		if got := r.size(v.ID, at); got < 24*mebi {
			t.Errorf("shows %d bytes of %d", got, 32*mebi)
		}
		r.unstage(v.ID)
		wantEntries(t, r.volumeDir(v.ID), imageFile, volumeFile)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("undone in %d rounds of %d", undone, rounds)
}
