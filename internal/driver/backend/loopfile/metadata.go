package loopfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
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
	// metadataFormat is raised when an older program would misread the file.
	metadataFormat = 1
)

// volumeMetadata is volume.json: the request that made the volume.
type volumeMetadata struct {
	Format int    `json:"format"`
	Name   string `json:"name"`
	// Filesystem is made when the volume is staged for the first time.
	Filesystem   filesystem.Type   `json:"filesystem,omitempty"`
	Capabilities []capability      `json:"capabilities"`
	Parameters   map[string]string `json:"parameters,omitempty"`
	Mutable      map[string]string `json:"mutable,omitempty"`
	FromSnapshot string            `json:"fromSnapshot,omitempty"`
	FromVolume   string            `json:"fromVolume,omitempty"`
}

// capability has no mount flags: they may be sensitive, and each request that needs them has them.
type capability struct {
	AccessType backend.AccessType `json:"accessType"`
	AccessMode backend.AccessMode `json:"accessMode"`
	FSType     string             `json:"fsType,omitempty"`
}

// snapshotMetadata is snapshot.json.
type snapshotMetadata struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Source  string    `json:"source"`
	Created time.Time `json:"created"`
	// Group is the group that the snapshot was made with.
	Group string `json:"group,omitempty"`
}

func metadataOf(r backend.Request, t filesystem.Type) volumeMetadata {
	m := volumeMetadata{
		Format: metadataFormat, Name: r.Name, Filesystem: t, Parameters: r.Parameters, Mutable: r.Mutable,
		FromSnapshot: r.Source.Snapshot.String(), FromVolume: r.Source.Volume.String(),
	}
	for _, c := range r.Capabilities {
		m.Capabilities = append(m.Capabilities, capability{c.Type, c.Mode, c.FSType})
	}
	return m
}

// volume returns the description for the driver.
func (m volumeMetadata) volume(id backend.ID, bytes int64) (backend.Volume, error) {
	v := backend.Volume{ID: id, Name: m.Name, CapacityBytes: bytes, Parameters: m.Parameters}
	for _, c := range m.Capabilities {
		v.Capabilities = append(v.Capabilities,
			backend.Capability{Type: c.AccessType, Mode: c.AccessMode, FSType: c.FSType})
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

func (m volumeMetadata) settings() (settings, error) { return settingsOf(m.Parameters, m.Mutable) }

// writeJSON collects the bytes in tempDir.
func writeJSON(path, tempDir string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, tempDir, append(text, '\n'))
}

func (b *Backend) readVolume(id backend.ID) (volumeMetadata, error) {
	var m volumeMetadata
	err := readJSON(filepath.Join(b.volumeDir(id), volumeFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !exists(b.volumeDir(id)) {
		return m, backend.NoSuchVolume(id.String())
	}
	if err == nil {
		err = checkOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return m, damaged("volume", id, volumeFile, err)
	}
	return m, nil
}

func (b *Backend) readSnapshot(id backend.ID) (snapshotMetadata, error) {
	var m snapshotMetadata
	dir := b.snapshotDir(id)
	err := readJSON(filepath.Join(dir, snapshotFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return m, noSuchSnapshot(id)
	}
	if err == nil {
		err = checkOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return m, damaged("snapshot", id, snapshotFile, err)
	}
	return m, nil
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// checkOwner finds a file that was copied here from elsewhere: its name leads
// to another id.
func checkOwner(id backend.ID, format int, name string) error {
	if format != metadataFormat {
		return fmt.Errorf("format %d, this program reads format %d", format, metadataFormat)
	}
	if backend.IDOf(name) != id {
		return fmt.Errorf("it describes another one, named %.128q", name)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func damaged(what string, id backend.ID, file string, cause error) error {
	return fault.Internal.Errorf("%s %q is damaged: %w; restore its %s or delete it", what, id, cause, file)
}

func noSuchSnapshot(id backend.ID) error {
	return fault.NotFound.Errorf("snapshot %.128q does not exist", id)
}
