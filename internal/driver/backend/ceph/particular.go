package ceph

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend"
)

var _ backend.Particular = (*Backend)(nil)

// CheckVolume implements backend.Particular: images and subvolumes are good for
// different things.
func (b *Backend) CheckVolume(_ context.Context, id backend.ID, c backend.Capability) error {
	o, err := volumeOf(id)
	if err != nil {
		return err
	}
	return checkKind(o.Kind, c)
}
