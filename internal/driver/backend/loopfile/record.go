package loopfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// record says where a volume is staged. It is written before the first step
// of staging and removed after the last one of unstaging. It has to survive
// the program, not the machine: after a boot nothing is staged.
type record struct {
	Path       string             `json:"path"`
	Access     backend.AccessType `json:"access"`
	Filesystem filesystem.Type    `json:"filesystem,omitempty"`
}

const recordSuffix = ".json"

func (b *Backend) recordPath(id backend.ID) string {
	return filepath.Join(b.staged, id.String()+recordSuffix)
}

// readRecord gives nil when the volume is not staged. It heals a damaged record.
func (b *Backend) readRecord(id backend.ID) (*record, error) {
	var r record
	err := backend.ReadJSON(b.recordPath(id), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // Not staged is no error.
	}
	if err == nil && r.Access != backend.Block && (r.Access != backend.Mount || r.Filesystem == filesystem.Nothing) {
		err = fmt.Errorf("%s: it says neither block nor mount with a filesystem", b.recordPath(id))
	}
	if err != nil {
		healed, err := b.heal(id, err)
		if err != nil {
			err = fault.Internal.Errorf(
				"where volume %q is staged cannot be read: %w; unmount it and remove the file", id, err)
		}
		return healed, err
	}
	return &r, nil
}

func (b *Backend) writeRecord(id backend.ID, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return b.reserve.Do(func() error { return b.replaceRecord(id, append(text, '\n')) })
}

func (b *Backend) replaceRecord(id backend.ID, text []byte) error {
	temp, err := os.CreateTemp(b.temp, "record-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), b.recordPath(id))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

func (b *Backend) removeRecord(id backend.ID) error { return removeEmpty(b.recordPath(id)) }
