package directory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

const (
	metadataFile = "volume.json"
	dataDir      = "data"
	// metadataFormat is raised when an older program would misread the file.
	metadataFormat = 1
)

// metadata is volume.json: the request that made the volume, for comparison
// with a repeated one.
type metadata struct {
	Format        int               `json:"format"`
	Name          string            `json:"name"`
	CapacityBytes int64             `json:"capacityBytes"`
	Capabilities  []capability      `json:"capabilities"`
	Parameters    map[string]string `json:"parameters,omitempty"`
}

// capability has no mount flags: they may be sensitive, and none are accepted.
type capability struct {
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
	FSType     string             `json:"fsType,omitempty"`
}

func (b *Backend) writeMetadata(dir string, v backend.Volume) error {
	m := metadata{
		Format:        metadataFormat,
		Name:          v.Name,
		CapacityBytes: v.CapacityBytes,
		Parameters:    v.Parameters,
	}
	for _, c := range v.Capabilities {
		m.Capabilities = append(m.Capabilities, capability{c.Type, c.Mode, c.FSType})
	}
	content, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, metadataFile), dir, append(content, '\n'))
}

func (b *Backend) readMetadata(id backend.ID) (backend.Volume, error) {
	path := filepath.Join(b.path(id), metadataFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !b.exists(id) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	if err != nil {
		return backend.Volume{}, damaged(id, err)
	}
	volume, err := parseMetadata(id, content)
	if err != nil {
		return backend.Volume{}, damaged(id, fmt.Errorf("%s: %w", path, err))
	}
	return volume, nil
}

// parseMetadata is pure. A name that does not lead to the id means that the
// file was copied here from another volume.
func parseMetadata(id backend.ID, content []byte) (backend.Volume, error) {
	var m metadata
	if err := json.Unmarshal(content, &m); err != nil {
		return backend.Volume{}, err
	}
	if m.Format != metadataFormat {
		return backend.Volume{}, fmt.Errorf("format %d, this program reads format %d", m.Format, metadataFormat)
	}
	if backend.IDOf(m.Name) != id {
		return backend.Volume{}, fmt.Errorf("it describes another volume, named %q", m.Name)
	}
	volume := backend.Volume{ID: id, Name: m.Name, CapacityBytes: m.CapacityBytes, Parameters: m.Parameters}
	for _, c := range m.Capabilities {
		volume.Capabilities = append(volume.Capabilities,
			backend.Capability{Type: c.AccessType, Mode: c.AccessMode, FSType: c.FSType})
	}
	return volume, nil
}

func (b *Backend) exists(id backend.ID) bool {
	_, err := os.Lstat(b.path(id))
	return !errors.Is(err, fs.ErrNotExist)
}

func damaged(id backend.ID, cause error) error {
	return fault.Internal.Errorf("volume %q is damaged: %w; restore its %s or delete the volume", id, cause, metadataFile)
}
