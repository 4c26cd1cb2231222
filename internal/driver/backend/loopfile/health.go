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

// Health implements backend.HealthReader.
func (b *Backend) Health(_ context.Context, id backend.ID) (string, error) {
	if !exists(b.volumeDir(id)) {
		return "", backend.NoSuchVolume(id.String())
	}
	m, err := b.readVolume(id)
	if err == nil {
		_, err = m.settings()
	}
	if err != nil {
		return err.Error(), nil
	}
	if _, err := image.Measure(b.imageOf(id)); err != nil {
		return fmt.Sprintf("the image is missing or damaged: %s", err), nil
	}
	r, err := b.readRecord(id)
	if err != nil {
		return err.Error(), nil
	}
	if r == nil {
		return "", nil
	}
	device, err := b.devicePath(id)
	if err != nil {
		return "", classify("look at volume "+id.String(), err)
	}
	if device == "" {
		return fmt.Sprintf("it is staged at %s, but its loop device was taken away; restart its pods", r.Path), nil
	}
	if r.Access == backend.Block {
		return "", nil
	}
	return problemOf(device, *r)
}

// problemOf returns the problem of a mounted volume.
func problemOf(device string, r record) (string, error) {
	mounts, err := mountsAt(r.Path)
	if err != nil || len(mounts) == 0 {
		return fmt.Sprintf("it is staged at %s, but not mounted there any more; restart its pods", r.Path), nil
	}
	if r.Filesystem == filesystem.Ext4 {
		count, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "errors_count"))
		if found := strings.TrimSpace(string(count)); err == nil && found != "0" {
			return fmt.Sprintf(
				"the kernel found %s errors in its filesystem; it is checked when it is staged the next time, so "+
					"restart its pods",
				found,
			), nil
		}
	}
	// For a pod that wants read-only, the mount is read-only. A read-only
	// filesystem with a writable mount was made so by the kernel.
	if m := mounts[0]; has(m.VFSOptions, "ro") && !has(m.Options, "ro") {
		return "the kernel made its filesystem read-only after an error; its log says why. Restart its pods", nil
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(r.Path, &stat); err != nil {
		return fmt.Sprintf("its filesystem does not answer: %s; restart its pods", err), nil
	}
	return "", nil
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
