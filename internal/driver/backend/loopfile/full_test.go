package loopfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// fill writes until there is no room.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, neverEnding{}, make([]byte, mebi))
	err = errors.Join(err, file.Sync(), file.Close())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling %s ended with %v", path, err)
	}
}

// occupy takes all the room without writing.
func occupy(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at := int64(0)
	for step := int64(64 * mebi); step >= 4096; step /= 2 {
		for unix.Fallocate(int(file.Fd()), 0, at, step) == nil {
			at += step
		}
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A pod that fills its volume gets ENOSPC, and other pods can still write.
func TestAFullVolumeLeavesOtherVolumesWritable(t *testing.T) {
	for _, name := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(name, func(t *testing.T) {
			mayMake(t, filesystem.Type(name))
			r, kind := newRig(t), kinds[name]
			full, other := r.create(request("full", kind.capability, kind.bytes)), r.create(request("other", kind.capability, kind.bytes))
			at := r.stage(full.ID, kind.capability)
			fill(t, filepath.Join(at, "big"))
			write(t, r.stage(other.ID, kind.capability), "file", some)
			wantContent(t, r.staging(other.ID, kind.capability).Path, "file", some)
			space, err := image.Measure(r.imageOf(full.ID))
			if err != nil || space.Allocated > kind.bytes+mebi {
				t.Errorf("the full volume takes %+v of %d, %v", space, kind.bytes, err)
			}
			usage, err := r.Usage(t.Context(), full.ID, at)
			if err != nil || usage[0].Available > kind.bytes/20 || usage[0].Total > kind.bytes {
				t.Errorf("Usage = %+v, %v", usage, err)
			}
			if err := os.Remove(filepath.Join(at, "big")); err != nil {
				t.Fatal(err)
			}
			if name != "btrfs" { // takes its time on purpose
				wantRoomAgain(t, at, r.imageOf(full.ID), space.Allocated/2)
			}
		})
	}
}

// wantRoomAgain waits until deleted files have freed their space in the pool. The filesystems
// discard in the background; a sync makes them start.
func wantRoomAgain(t *testing.T, at, path string, most int64) {
	t.Helper()
	dir, err := os.Open(at)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var space image.Space
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if err := unix.Syncfs(int(dir.Fd())); err != nil {
			t.Fatal(err)
		}
		if space, err = image.Measure(path); err != nil || space.Allocated <= most {
			break
		}
	}
	if err != nil || space.Allocated > most {
		t.Errorf("a deleted file still takes room: %+v, want at most %d, %v", space, most, err)
	}
}

func TestAFullPool(t *testing.T) {
	r := poolRig(t, filesystem.XFS, 400*mebi, Config{})
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 64*mebi))
	ballast := filepath.Join(r.dir, "pool", "ballast")
	occupy(t, ballast)

	if _, err := r.Create(t.Context(), request("other", c, 64*mebi)); err != nil && !fault.Exhausted.Is(err) {
		t.Errorf("Create: %v, want exhausted or none", err)
	}
	if err := r.Stage(t.Context(), r.staging(v.ID, c)); !fault.Exhausted.Is(err) {
		t.Errorf("Stage: %v, want exhausted", err)
	}
	wantEntries(t, r.temp)
	wantEntries(t, r.staged)
	r.wantNoDevices()

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	write(t, r.stage(v.ID, c), "file", some)
}

// free is the space of the pool.
func (r *rig) free() int64 {
	r.Helper()
	disk, err := r.disk()
	if err != nil {
		r.Fatal(err)
	}
	return disk.Free
}

func TestThickVolumes(t *testing.T) {
	r := poolRig(t, filesystem.XFS, 400*mebi, Config{})
	c := mountOf(filesystem.Ext4)
	thick := func(name string, bytes int64) backend.Request {
		q := request(name, c, bytes)
		q.Parameters = map[string]string{provisioningKey: "thick"}
		return q
	}
	v := r.create(thick("vol", 64*mebi))
	wantAllocated := func(bytes int64) {
		t.Helper()
		if space, err := image.Measure(r.imageOf(v.ID)); err != nil || space.Allocated < bytes {
			t.Errorf("%+v, %v, want all of it allocated", space, err)
		}
	}
	wantAllocated(64 * mebi)
	// A copy of it has its own space as well.
	clone := thick("clone", 64*mebi)
	clone.Source.Volume = v.ID
	write(t, r.stage(v.ID, c), "file", 32*mebi)
	r.unstage(v.ID)
	before := r.free()
	copied := r.create(clone)
	if took := before - r.free(); took < 60*mebi {
		t.Errorf("the copy took %d bytes of the pool", took)
	}
	r.remove(copied.ID)
	if _, err := r.Create(t.Context(), thick("too-big", 390*mebi)); !fault.Exhausted.Is(err) {
		t.Errorf("more than there is: %v, want exhausted", err)
	}
	wantEntries(t, r.temp)
	wantEntries(t, r.volumes, "vol")

	at := r.stage(v.ID, c)
	// The kernel would make holes when it likes, within seconds.
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(at))
	if err != nil || len(mounts) != 1 || !strings.Contains(mounts[0].VFSOptions, "noinit_itable") {
		t.Errorf("mounted as %+v, %v, want noinit_itable", mounts, err)
	}
	wantAllocated(64 * mebi)
	write(t, at, "file", 8*mebi)
	if err := os.Remove(filepath.Join(at, "file")); err != nil {
		t.Fatal(err)
	}
	r.unstage(v.ID)
	wantAllocated(64 * mebi)
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 128 * mebi}); err != nil {
		t.Fatal(err)
	}
	wantAllocated(128 * mebi)
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 500 * mebi}); !fault.Exhausted.Is(err) {
		t.Errorf("Expand beyond the pool: %v", err)
	}
	// The room of a full pool is the volume's own.
	at = r.stage(v.ID, c)
	occupy(t, filepath.Join(r.dir, "pool", "ballast"))
	write(t, at, "file", 40*mebi)
	wantContent(t, at, "file", 40*mebi)
}

// A pool without shared copies refuses a copy that does not fit before it writes any byte of it. So
// the pool is not full meanwhile for a pod that writes to another volume, or for another copy.
func TestACopyThatDoesNotFit(t *testing.T) {
	r := poolRig(t, filesystem.Ext4, 256*mebi, Config{})
	v := r.create(request("vol", blockAccess, 160*mebi))
	write(t, r.imageOf(v.ID), "data", 130*mebi)
	before := r.free()
	least := before
	watched := r.space.Look
	r.space.Look = func() (Disk, error) {
		disk, err := watched()
		least = min(least, disk.Free)
		return disk, err
	}
	clone := request("clone", blockAccess, 160*mebi)
	clone.Source.Volume = v.ID
	_, snapshot := r.snapshot("snap", v.ID)
	_, group := r.CreateGroup(t.Context(), groupRequest("group", v.ID))
	_, cloned := r.Create(t.Context(), clone)
	for what, err := range map[string]error{"snapshot": snapshot, "clone": cloned, "group": group} {
		if !fault.Exhausted.Is(err) || !strings.Contains(err.Error(), "room for") {
			t.Errorf("%s: %v, want exhausted, and before anything is written", what, err)
		}
	}
	if least < before-mebi {
		t.Errorf("%d bytes were written", before-least)
	}
	for _, dir := range []string{r.temp, r.snapshots, r.groups} {
		wantEntries(t, dir)
	}
}

// Two copies that fit one at a time.
func TestCopiesAtOnceThatDoNotFit(t *testing.T) {
	r := poolRig(t, filesystem.Ext4, 256*mebi, Config{})
	v := r.create(request("vol", blockAccess, 128*mebi))
	write(t, r.imageOf(v.ID), "data", 80*mebi)
	booking, err := r.space.Book(80 * mebi) // the other copy
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.snapshot("snap", v.ID); !fault.Exhausted.Is(err) {
		t.Errorf("%v, want exhausted", err)
	}
	booking.Release()
	if _, err := r.snapshot("snap", v.ID); err != nil {
		t.Error(err)
	}
}

// If the space cannot be reserved, the volume keeps its size. A larger size without the space would
// look complete to a retry.
func TestAThickVolumeGrowsWithItsSpaceOrNot(t *testing.T) {
	r := poolRig(t, filesystem.XFS, 400*mebi, Config{})
	q := request("vol", blockAccess, 64*mebi)
	q.Parameters = map[string]string{provisioningKey: "thick"}
	v := r.create(q)
	// Another call was faster, and took the checked room.
	look := r.space.Look
	r.space.Look = func() (Disk, error) { return Disk{Free: 1 << 40, Used: 1}, nil }
	for range 2 {
		if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 800 * mebi}); !fault.Exhausted.Is(err) {
			t.Errorf("%v, want exhausted", err)
		}
	}
	r.space.Look = look
	if got, err := r.Get(t.Context(), v.ID); err != nil || got.CapacityBytes != 64*mebi {
		t.Errorf("it has %d bytes, %v", got.CapacityBytes, err)
	}
	if space, err := image.Measure(r.imageOf(v.ID)); err != nil || space.Allocated > 65*mebi {
		t.Errorf("it takes %+v, %v", space, err)
	}
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 128 * mebi}); err != nil {
		t.Fatal(err)
	}
	if space, err := image.Measure(r.imageOf(v.ID)); err != nil || space.Allocated < 128*mebi || space.Size != 128*mebi {
		t.Errorf("%+v, %v, want all of it allocated", space, err)
	}
}

func TestOverCommit(t *testing.T) {
	r := poolRig(t, filesystem.XFS, 400*mebi, Config{OverCommit: 2})
	before, err := r.Available(t.Context())
	if err != nil || before > 800*mebi || before < 400*mebi {
		t.Fatalf("Available = %d, %v", before, err)
	}
	first := r.create(request("first", blockAccess, 300*mebi))
	after, err := r.Available(t.Context())
	if err != nil || before-after < 290*mebi || before-after > 310*mebi {
		t.Errorf("Available fell from %d to %d, %v", before, after, err)
	}
	strict := request("strict", blockAccess, 300*mebi)
	strict.Parameters = map[string]string{overCommitKey: "1"}
	if _, err := r.Create(t.Context(), strict); !fault.Exhausted.Is(err) {
		t.Errorf("beyond the limit of the class: %v, want exhausted", err)
	}
	if _, err := r.Create(t.Context(), request("huge", blockAccess, 600*mebi)); !fault.Exhausted.Is(err) {
		t.Errorf("beyond the limit: %v, want exhausted", err)
	}
	if _, err := r.Expand(t.Context(), first.ID, backend.Range{Required: 1200 * mebi}); !fault.Exhausted.Is(err) {
		t.Errorf("growing beyond the limit: %v, want exhausted", err)
	}
	wantEntries(t, r.volumes, "first")
	// A refused call reserves nothing, and a restart loses no reservation.
	if again, err := r.restart().Available(t.Context()); err != nil || max(again-after, after-again) > mebi {
		t.Errorf("Available after a restart = %d, %v, want %d", again, err, after)
	}
	r.remove(first.ID)
	if again, err := r.Available(t.Context()); err != nil || before-again > mebi {
		t.Errorf("Available after the delete = %d, %v, want %d", again, err, before)
	}
}

func TestModify(t *testing.T) {
	r := newRig(t)
	c := mountOf(filesystem.Ext4)
	q := request("vol", c, 32*mebi)
	q.Mutable = map[string]string{discardKey: "false"}
	v := r.create(q)
	r.stage(v.ID, c)
	for range 2 { // the second call is the idempotent one
		if err := r.Modify(t.Context(), v.ID, map[string]string{provisioningKey: "thick"}); err != nil {
			t.Fatal(err)
		}
	}
	if space, err := image.Measure(r.imageOf(v.ID)); err != nil || space.Allocated < 32*mebi {
		t.Errorf("%+v, %v, want all of it allocated", space, err)
	}
	if err := r.Modify(t.Context(), v.ID, map[string]string{discardKey: "true"}); !fault.Invalid.Is(err) {
		t.Errorf("discard of a thick volume: %v, want an invalid argument", err)
	}
	if err := r.Modify(t.Context(), v.ID, map[string]string{"speed": "fast"}); !fault.Invalid.Is(err) {
		t.Errorf("an unknown key: %v, want an invalid argument", err)
	}
	m, err := r.restart().readVolume(v.ID)
	if err != nil || len(m.Mutable) != 2 || m.Mutable[provisioningKey] != "thick" || m.Mutable[discardKey] != "false" {
		t.Errorf("remembered: %v, %v", m.Mutable, err)
	}
	if err := r.Modify(t.Context(), backend.IDOf("missing"), map[string]string{discardKey: "true"}); !fault.NotFound.Is(err) {
		t.Errorf("a missing volume: %v", err)
	}
}

// Discard of a mounted volume can be switched on and off.
func TestModifyDiscard(t *testing.T) {
	for _, name := range []string{"ext4", "btrfs"} {
		t.Run(name, func(t *testing.T) {
			mayMake(t, filesystem.Type(name))
			r, kind := newRig(t), kinds[name]
			v := r.create(request("vol", kind.capability, kind.bytes))
			c := kind.capability
			c.MountFlags = []string{"nodev"}
			at := r.stage(v.ID, c)
			for _, on := range []string{"false", "true"} {
				if err := r.Modify(t.Context(), v.ID, map[string]string{discardKey: on}); err != nil {
					t.Fatal(err)
				}
				options := optionsOf(t, at)
				if discards := strings.Contains(options, ",discard"); discards != (on == "true") || !strings.Contains(options, "nodev") {
					t.Errorf("with %s the options are %s", on, options)
				}
			}
		})
	}
}

func optionsOf(t *testing.T, path string) string {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil || len(mounts) != 1 {
		t.Fatal(mounts, err)
	}
	return mounts[0].Options + "," + mounts[0].VFSOptions
}
