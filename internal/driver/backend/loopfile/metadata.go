package loopfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

const (
	volumeFile   = "volume.json"
	snapshotFile = "snapshot.json"
	imageFile    = "image"
	// formattingFile is beside an image while mkfs runs. Such an image has
	// only data that mkfs wrote.
	formattingFile = "formatting"
	// undoFile stands beside an image while its ext4 is grown, and can take
	// that back.
	undoFile = "undo"
	// sizeFile stands beside an undo file while that is applied.
	sizeFile = "size"
)

// volumeMetadata is volume.json: the request that made the volume.
type volumeMetadata struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	// Filesystem is made when the volume is staged for the first time.
	Filesystem   filesystem.Type      `json:"filesystem,omitempty"`
	Capabilities []backend.Capability `json:"capabilities"`
	Parameters   map[string]string    `json:"parameters,omitempty"`
	Mutable      map[string]string    `json:"mutable,omitempty"`
	FromSnapshot string               `json:"fromSnapshot,omitempty"`
	FromVolume   string               `json:"fromVolume,omitempty"`
	// Asked is the required bytes of the request for the size, where that was rounded up.
	Asked int64 `json:"asked,omitempty"`
}

// snapshotMetadata is snapshot.json.
type snapshotMetadata struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Source  string    `json:"source"`
	Created time.Time `json:"created"`
	// Group is the group that the snapshot was made with.
	Group string `json:"group,omitempty"`
	// Least is backend.Snapshot.LeastBytes.
	Least int64 `json:"least,omitempty"`
}

func metadataOf(r backend.Request, t filesystem.Type) volumeMetadata {
	return volumeMetadata{
		Format: backend.MetadataFormat, Name: r.Name, Filesystem: t, Capabilities: r.Capabilities,
		Parameters: r.Parameters, Mutable: r.Mutable,
		FromSnapshot: r.Source.Snapshot.String(), FromVolume: r.Source.Volume.String(),
	}
}

// volume returns the description for the driver.
func (m volumeMetadata) volume(id backend.ID, bytes int64) (backend.Volume, error) {
	v := backend.Volume{
		ID: id, Name: m.Name, CapacityBytes: bytes, LeastBytes: m.least(bytes),
		Capabilities: m.Capabilities, Parameters: m.Parameters,
	}
	var err error
	if m.FromSnapshot != "" {
		v.Source.Snapshot, err = backend.ParseID(m.FromSnapshot)
	}
	if m.FromVolume != "" && err == nil {
		v.Source.Volume, err = backend.ParseID(m.FromVolume)
	}
	return v, err
}

// least returns backend.Volume.LeastBytes of a volume of this size.
func (m volumeMetadata) least(bytes int64) int64 {
	return backend.LeastRequest(bytes, m.Asked, roundedUp(m.Asked, m.Filesystem))
}

func (m volumeMetadata) settings() (settings, error) { return settingsOf(m.Parameters, m.Mutable) }

func (b *Backend) readVolume(id backend.ID) (volumeMetadata, error) {
	var m volumeMetadata
	err := backend.ReadJSON(filepath.Join(b.volumeDir(id), volumeFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !exists(b.volumeDir(id)) {
		return m, backend.NoSuchVolume(id.String())
	}
	if err == nil {
		err = backend.CheckOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return m, backend.Damaged("volume", id, volumeFile, err)
	}
	return m, nil
}

func (b *Backend) readSnapshot(id backend.ID) (snapshotMetadata, error) {
	var m snapshotMetadata
	dir := b.snapshotDir(id)
	err := backend.ReadJSON(filepath.Join(dir, snapshotFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return m, noSuchSnapshot(id)
	}
	if err == nil {
		err = backend.CheckOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return m, backend.Damaged("snapshot", id, snapshotFile, err)
	}
	return m, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func noSuchSnapshot(id backend.ID) error {
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}
