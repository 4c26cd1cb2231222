package directory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
)

const (
	metadataFile = "volume.json"
	dataDir      = "data"
)

// metadata is volume.json: the request that made the volume, for comparison
// with a repeated one.
type metadata struct {
	Format        int                  `json:"format"`
	Name          string               `json:"name"`
	CapacityBytes int64                `json:"capacityBytes"`
	Capabilities  []backend.Capability `json:"capabilities"`
	Parameters    map[string]string    `json:"parameters,omitempty"`
}

func (b *Backend) writeMetadata(dir string, v backend.Volume) error {
	return backend.WriteJSON(filepath.Join(dir, metadataFile), dir, metadata{
		Format: backend.MetadataFormat, Name: v.Name, CapacityBytes: v.CapacityBytes,
		Capabilities: v.Capabilities, Parameters: v.Parameters,
	})
}

func (b *Backend) readMetadata(id backend.ID) (backend.Volume, error) {
	var m metadata
	err := backend.ReadJSON(filepath.Join(b.path(id), metadataFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !b.exists(id) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	if err == nil {
		err = backend.CheckOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return backend.Volume{}, damaged(id, err)
	}
	return backend.Volume{
		ID: id, Name: m.Name, CapacityBytes: m.CapacityBytes, Capabilities: m.Capabilities, Parameters: m.Parameters,
	}, nil
}

func (b *Backend) exists(id backend.ID) bool {
	_, err := os.Lstat(b.path(id))
	return !errors.Is(err, fs.ErrNotExist)
}

func damaged(id backend.ID, cause error) error {
	return backend.Damaged("volume", id, metadataFile, cause)
}
