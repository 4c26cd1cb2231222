package loopfile

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/purser-csi/purser/internal/loopdev"
)

// DetachBelow detaches the loop devices that have no users and whose image lies below a folder. It
// is for a program that is about to remove the folder with the state of a driver that has ended: a
// block volume keeps its device, which would otherwise stay attached to a deleted image.
func DetachBelow(ctx context.Context, dir string) (detached []string, err error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	all, err := loopdev.All(loopdev.Below(real))
	var failures []error
	for _, devices := range all {
		for _, device := range devices {
			if inUse(device) {
				_ = device.Release()
				continue
			}
			if err := detach(ctx, device); err != nil {
				failures = append(failures, err)
				continue
			}
			detached = append(detached, device.Path())
		}
	}
	return detached, errors.Join(err, errors.Join(failures...))
}
