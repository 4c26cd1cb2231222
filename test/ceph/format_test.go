package ceph

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// A node that lost its power during mkfs comes back, and another one has used
// the volume since. Its own note must not make it format again.
func TestAnOldMarkOfANodeFormatsNothing(t *testing.T) {
	here, there := newRig(t), newRig(t)
	volume := there.create(there.request("old-mark", images))
	path := there.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "file"), "kept")
	there.unstage(volume.ID)

	note := filepath.Join(here.dir, "state", "ceph", "staged", volume.ID.String())
	err := errors.Join(
		os.MkdirAll(note, 0o700),
		os.WriteFile(filepath.Join(note, "staged.json"), []byte(`{"path":"`+here.stagingPath(volume.ID)+`","access":"mount","way":"rbd-fuse","formatting":true}`), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	busyWatchers(t, here, volume.ID)
	wantContent(t, filepath.Join(here.stage(volume.ID, mounted), "file"), "kept")
}

// A node that lost its power during mkfs never comes back. The next one sees
// that what is on the image is no user's data.
func TestAHalfMadeFilesystemIsMadeAnew(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("half-made", images))
	writeRaw(t, r, volume.ID, 0, "half of a filesystem")
	if _, err := shared.Run(t.Context(), "rbd", "image-meta", "set", imageOf(volume.ID), "purser.formatting", "begun"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.stage(volume.ID, mounted), "file"), "written")
}

// writeRaw writes as a pod does that has the volume as a block device.
func writeRaw(t *testing.T, r *rig, id backend.ID, offset int64, content string) {
	t.Helper()
	path := r.stagingPath(id)
	if err := r.Stage(r.ctx(), backend.Staging{Volume: id, Path: path, Capability: raw}); err != nil {
		t.Fatal(err)
	}
	device, err := r.Staged(t.Context(), id, path, backend.Block)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte(content), offset)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	r.unstage(id)
	busyWatchers(t, r, id)
}

// Zeros at the beginning do not make a volume blank.
func TestDataBehindZerosIsNotFormatted(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("behind-zeros", images))
	writeRaw(t, r, volume.ID, 20*mebi, "data")
	err := r.Stage(r.ctx(), backend.Staging{Volume: volume.ID, Path: r.stagingPath(volume.ID), Capability: mounted})
	if !fault.Incompatible.Is(err) {
		t.Errorf("staged as a filesystem: %v, want incompatible", err)
	}
}

// Readers change nothing: they make no filesystem, mount without a journal, and
// have a device that cannot be written to.
func TestReadersOfAnImage(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) {
			r := newRig(t)
			writing, reading := mounted, backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeReaderOnly, FSType: fs}
			writing.FSType = fs
			volume := r.create(r.request("readers", images, func(q *backend.Request) {
				q.Size.Required = 320 * mebi
				q.Capabilities[0].FSType = fs
			}))
			err := r.Stage(r.ctx(), backend.Staging{Volume: volume.ID, Path: r.stagingPath(volume.ID), Capability: reading})
			if !fault.Incompatible.Is(err) {
				t.Errorf("a reader of a new volume: %v, want incompatible", err)
			}
			write(t, filepath.Join(r.stage(volume.ID, writing), "file"), "kept")
			r.unstage(volume.ID)
			busyWatchers(t, r, volume.ID)
			path := r.stage(volume.ID, reading)
			wantContent(t, filepath.Join(path, "file"), "kept")
			if err := os.WriteFile(filepath.Join(path, "other"), nil, 0o600); err == nil {
				t.Error("a reader has written")
			}
			wantReadOnly(t, path)
		})
	}
}

// What a writer left in the log of its filesystem when it ended is for the next
// writer: a reader does without.
func TestAReaderAfterACrash(t *testing.T) {
	for _, fs := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fs, func(t *testing.T) {
			r := newRig(t)
			writing, reading := mounted, backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeReaderOnly, FSType: fs}
			writing.FSType = fs
			volume := r.create(r.request("crash-"+fs, images, func(q *backend.Request) {
				q.Size.Required = 320 * mebi
				q.Capabilities[0].FSType = fs
			}))
			path := r.stage(volume.ID, writing)
			flush(t, path)
			write(t, filepath.Join(path, "file"), "only in the log")
			killDaemon(t, "rbd-fuse", volume.ID.String())
			r.unstage(volume.ID)
			busyWatchers(t, r, volume.ID)
			r.stage(volume.ID, reading)
			r.unstage(volume.ID)
			busyWatchers(t, r, volume.ID)
			wantContent(t, filepath.Join(r.stage(volume.ID, writing), "file"), "only in the log")
		})
	}
}

func TestAReaderOfARawImage(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("raw-reader", images, func(q *backend.Request) { q.Capabilities = []backend.Capability{raw} }))
	writeRaw(t, r, volume.ID, 0, "kept")
	path := r.stage(volume.ID, backend.Capability{Type: backend.Block, Mode: backend.SingleNodeReaderOnly})
	device, err := r.Staged(t.Context(), volume.ID, path, backend.Block)
	if err != nil {
		t.Fatal(err)
	}
	if err := overwrite(device); err == nil {
		t.Error("a reader has written")
	}
	r.unstage(volume.ID)
	busyWatchers(t, r, volume.ID)
	writeRaw(t, r, volume.ID, 0, "a writer is none the worse")
}

// wantReadOnly is about the device below a mount.
func wantReadOnly(t *testing.T, path string) {
	t.Helper()
	all, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil || len(all) != 1 {
		t.Fatalf("mounts at %s: %v, %v", path, all, err)
	}
	if err := overwrite(all[0].Source); err == nil {
		t.Errorf("%s can be written to", all[0].Source)
	}
}

func overwrite(device string) error {
	file, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("overwritten")
	return errors.Join(err, file.Close())
}
