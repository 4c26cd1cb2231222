package loopfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
	"golang.org/x/sys/unix"
)

// Health implements backend.HealthReader. It reports the worst problem.
func (b *Backend) Health(_ context.Context, id backend.ID) (backend.Problem, error) {
	if !exists(b.volumeDir(id)) {
		return backend.Problem{}, backend.NoSuchVolume(id.String())
	}
	m, err := b.readVolume(id)
	var s settings
	if err == nil {
		s, err = m.settings()
	}
	if err != nil {
		return unusable("RecordDamaged", err.Error()), nil
	}
	if _, err := image.Measure(b.imageOf(id)); err != nil {
		return unusable("ImageMissing", fmt.Sprintf("the image is missing or damaged: %s", err)), nil
	}
	r, err := b.readRecord(id)
	if err != nil {
		return unusable("RecordDamaged", err.Error()), nil
	}
	if r != nil {
		if problem, err := b.problemOfStaged(id, *r); err != nil || problem.Reason != "" {
			return problem, err
		}
	}
	if !s.thick && b.reserve.IsLow() {
		return degraded("PoolFull", "the pool is full, so writes that need more of it fail; delete volumes or "+
			"snapshots, or enlarge the disk"), nil
	}
	return backend.Problem{}, nil
}

func unusable(reason, message string) backend.Problem {
	return backend.Problem{Reason: reason, Message: message, Unusable: true}
}

func degraded(reason, message string) backend.Problem {
	return backend.Problem{Reason: reason, Message: message}
}

// problemOfStaged returns the problem of a volume that is staged on this node.
func (b *Backend) problemOfStaged(id backend.ID, r record) (backend.Problem, error) {
	device, err := b.devicePath(id)
	if err != nil {
		return backend.Problem{}, classify("look at volume "+id.String(), err)
	}
	if device == "" {
		return unusable("DeviceGone", fmt.Sprintf(
			"it is staged at %s, but its loop device was taken away; restart its pods", r.Path,
		)), nil
	}
	if r.Access == backend.Block {
		return backend.Problem{}, nil
	}
	return problemOfMounted(device, r), nil
}

// problemOfMounted returns the problem of a mounted volume.
func problemOfMounted(device string, r record) backend.Problem {
	mounts, err := mountsAt(r.Path)
	if err != nil || len(mounts) == 0 {
		return unusable("NotMounted", fmt.Sprintf(
			"it is staged at %s, but not mounted there any more; restart its pods", r.Path,
		))
	}
	if r.Filesystem == filesystem.Ext4 {
		count, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "errors_count"))
		if found := strings.TrimSpace(string(count)); err == nil && found != "0" {
			return degraded("FilesystemErrors", fmt.Sprintf(
				"the kernel found %s errors in its filesystem; it is checked when it is staged the next time, so "+
					"restart its pods",
				found,
			))
		}
	}
	// For a pod that wants read-only, the mount is read-only. A read-only
	// filesystem with a writable mount was made so by the kernel.
	if m := mounts[0]; has(m.VFSOptions, "ro") && !has(m.Options, "ro") {
		return degraded("FilesystemReadOnly",
			"the kernel made its filesystem read-only after an error; its log says why. Restart its pods")
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(r.Path, &stat); err != nil {
		return unusable("FilesystemFails", fmt.Sprintf("its filesystem does not answer: %s; restart its pods", err))
	}
	return backend.Problem{}
}

func mountsAt(path string) ([]*mountinfo.Info, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return mountinfo.GetMounts(mountinfo.SingleEntryFilter(real))
}

func has(options, option string) bool {
	return slices.Contains(strings.Split(options, ","), option)
}

// Check implements backend.Checker. It asks instead of writing: probes are
// frequent, and a full disk is no reason to restart the driver.
func (b *Backend) Check(context.Context) error {
	for _, dir := range b.folders() {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fault.Unready.Errorf("state directory %s is not writable: %w", dir, err)
		}
	}
	if err := loopdev.Usable(); err != nil {
		return fault.Unready.Errorf("%w", err)
	}
	return nil
}
