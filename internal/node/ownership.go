package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// The first event about files that take long, and those after it (ND-4).
const (
	firstOwnershipEvent = 30 * time.Second
	nextOwnershipEvent  = time.Minute
)

// setOwnership gives the files of a volume the pod's group, and the modes that the group needs. A
// link is not followed. The root folder is last, so that its group and mode say that all is done.
func (a *Agent) setOwnership(ctx context.Context, use mounting.Use, o mounting.Ownership) error {
	root := a.layout.Target(use.ID)
	info, err := os.Lstat(root)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && o.OnlyOnMismatch && o.IsOwned(stat.Gid, stat.Mode&0o7777) {
		return nil
	}
	var files atomic.Int64
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.tellProgress(ctx, use, &files)
	return chownTree(ctx, root, o, &files)
}

func chownTree(ctx context.Context, path string, o mounting.Ownership, files *atomic.Int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another pod has removed it
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := chownTree(ctx, filepath.Join(path, entry.Name()), o, files); err != nil {
				return err
			}
		}
	}
	files.Add(1)
	return chown(path, info, o)
}

func chown(path string, info fs.FileInfo, o mounting.Ownership) error {
	if err := os.Lchown(path, -1, int(o.Group)); err != nil {
		return ignoreGone(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 { // chmod would follow it
		return nil
	}
	kind := mounting.File
	if info.IsDir() {
		kind = mounting.Folder
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: no mode", path)
	}
	return ignoreGone(syscall.Chmod(path, mounting.FileMode(stat.Mode&0o7777, kind)))
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (a *Agent) tellProgress(ctx context.Context, use mounting.Use, files *atomic.Int64) {
	for pause := firstOwnershipEvent; ; pause = nextOwnershipEvent {
		select {
		case <-ctx.Done():
			return
		case <-a.Clock.After(pause):
		}
		a.Events.Event(use.Pod, corev1.EventTypeWarning, mounting.EventPermissionProgress, fmt.Sprintf(
			"Setting volume ownership for %s/volumes/kubernetes.io~csi/%s/mount, processed %d files.", use.ID.Pod,
			use.ID.Spec, files.Load()))
	}
}
