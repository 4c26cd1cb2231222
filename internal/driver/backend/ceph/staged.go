package ceph

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// stagedRecord says where and how a volume is staged. It is written before the
// first step of staging and removed after the last one of unstaging, and needs
// neither the cluster nor a user to be understood.
type stagedRecord struct {
	Path   string             `json:"path"`
	Access backend.AccessType `json:"access"`
	// Way is the name of the mapping.Mapper or sharing.Mounter.
	Way string `json:"way"`
	// Formatting says that a filesystem is being made: what is on the image
	// is no user's data.
	Formatting bool `json:"formatting,omitempty"`
}

const stagedFile = "staged.json"

func (b *Backend) stagedDir(id backend.ID) string { return filepath.Join(b.staged, id.String()) }

// image is the image of a volume as it is mapped here.
func (b *Backend) image(id backend.ID, o handle.Object) mapping.Image {
	return mapping.Image{Pool: o.Pool, Name: rbd.ImageName(o), Dir: b.stagedDir(id)}
}

// readStaged gives false when the volume is not staged.
func (b *Backend) readStaged(id backend.ID) (r stagedRecord, found bool, err error) {
	path := filepath.Join(b.stagedDir(id), stagedFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, false, fault.Internal.Errorf(
			"where volume %q is staged cannot be read: %w; unmount it and remove %s",
			id,
			err,
			b.stagedDir(id),
		)
	}
	return r, true, nil
}

func (b *Backend) writeStaged(id backend.ID, r stagedRecord) error {
	dir := b.stagedDir(id)
	text, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, stagedFile), dir, append(text, '\n'))
	}
	if err != nil {
		return fault.Internal.Errorf("note that volume %q is staged: %w", id, err)
	}
	return nil
}

// removeStaged removes the record last. It is no RemoveAll: an image that is
// still shown below would be emptied.
func (b *Backend) removeStaged(id backend.ID) error {
	dir := b.stagedDir(id)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		for _, entry := range entries {
			err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name())))
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err != nil {
		return fault.Internal.Errorf("forget that volume %q was staged: %w", id, err)
	}
	return nil
}
