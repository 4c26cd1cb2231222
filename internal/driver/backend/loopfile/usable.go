package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
)

// Usable says why this process cannot keep volumes in image files; nil when it
// can. It makes the state directory when it is missing, and finds out by doing
// it once: being root says nothing about what a container allows.
func Usable(stateDir string) error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("loop images need root, and this is user id %d", uid)
	}
	if err := loopdev.Usable(); err != nil {
		return err
	}
	if err := filesystem.Present(filesystem.Default); err != nil {
		return err
	}
	detection, err := mount.Detect(stateDir)
	if err != nil {
		return err
	}
	if _, mounts := detection.Mounter.(mount.BindMounter); !mounts {
		return errors.New(detection.Reason)
	}
	return tryAttach(stateDir)
}

func tryAttach(stateDir string) error {
	dir, err := os.MkdirTemp(stateDir, ".loop-trial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, imageFile)
	if err := image.Create(path, mebi); err != nil {
		return err
	}
	device, err := loopdev.Attach(context.Background(), path, loopdev.UntilDetached)
	if err != nil {
		return fmt.Errorf("attach an image as a loop device: %w", err)
	}
	return detach(context.Background(), device)
}
