package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// mapBlock makes a published device appear for the pod: a bind mount in the global map, a link in
// the pod's folder, and a loop device on the bind mount as a lock, so that the kernel does not give
// the device's name to another one (5.7).
func (a *Agent) mapBlock(ctx context.Context, id mounting.ID) error {
	global, link, device := a.layout.BlockMap(id), a.layout.BlockLink(id), a.layout.Target(id)
	if err := errors.Join(makeDirs(filepath.Dir(global)), makeDirs(filepath.Dir(link))); err != nil {
		return err
	}
	if err := (mount.BindMounter{}).Bind(device, global, mount.ReadWrite); err != nil {
		return fmt.Errorf("map the block device: %w", err)
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("map the block device: %w", err)
	}
	if err := os.Symlink(device, link); err != nil {
		return fmt.Errorf("map the block device: %w", err)
	}
	return lock(ctx, global)
}

// unmapBlock undoes mapBlock. Each step may be done already.
func (a *Agent) unmapBlock(id mounting.ID) error {
	global, link := a.layout.BlockMap(id), a.layout.BlockLink(id)
	if err := unlock(global); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmap the block device: %w", err)
	}
	if err := (mount.BindMounter{}).Unbind(global); err != nil {
		return fmt.Errorf("unmap the block device: %w", err)
	}
	return nil
}

// lock attaches a loop device to the file, unless there is one (ND-12).
func lock(ctx context.Context, path string) error {
	device, err := lockOf(path)
	if err == nil && device == nil {
		device, err = loopdev.AttachReadOnly(ctx, path, loopdev.UntilDetached)
	}
	if err != nil {
		return fmt.Errorf("lock the block device: %w", err)
	}
	return device.Release()
}

func unlock(path string) error {
	device, err := lockOf(path)
	if err != nil || device == nil {
		return err
	}
	return device.Detach()
}

// lockOf returns the loop device on the file; nil if there is none. It is the file's path that
// tells it from a loop device that the driver has on the same image.
func lockOf(path string) (*loopdev.Device, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	inode, err := loopdev.InodeOf(path)
	if err != nil {
		return nil, fmt.Errorf("find the lock of the block device: %w", err)
	}
	parts := strings.Split(path, "/")
	name := "/" + strings.Join(parts[max(0, len(parts)-3):], "/") // volume, dev, pod
	device, err := loopdev.FindLike(inode, func(backing string) bool { return strings.HasSuffix(backing, name) })
	if err != nil {
		return nil, fmt.Errorf("find the lock of the block device: %w", err)
	}
	return device, nil
}

// ReleaseLocks detaches the loop devices that lock the block volumes below a root directory, for a
// node that is taken down with all its mounts.
func ReleaseLocks(root string) error {
	maps, err := filepath.Glob(mounting.Layout{Root: root}.BlockMap(mounting.ID{Pod: "*", Spec: "*"}))
	for _, path := range maps {
		err = errors.Join(err, unlock(path))
	}
	return err
}
