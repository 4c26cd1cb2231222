package records

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
)

// Suffix ends the name of every record.
const Suffix = ".json"

// Name returns the name of the file of a volume, where a volume has one record.
func Name(volume backend.ID) string { return volume.String() + Suffix }

// VolumeOf returns the volume of a file that [Name] has named; false for any other file.
func VolumeOf(name string) (volume backend.ID, isRecord bool) {
	text, found := strings.CutSuffix(name, Suffix)
	if !found {
		return backend.ID{}, false
	}
	volume, err := backend.MakeID(text)
	return volume, err == nil
}

// Folder is a folder that holds records and nothing else.
type Folder struct {
	Dir  string
	What string // for errors: what the records are, in the plural
}

// Each makes the folder where it is absent, removes what a killed WriteFile left, and calls read
// with the name of each record, in the order of the names. A volume id can begin like a temporary
// file, but only a record ends like one.
func (f Folder) Each(isRecord func(name string) bool, read func(name string) error) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of %s: %w", f.What, err)
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return fmt.Errorf("list the %s: %w", f.What, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case isRecord(name):
			err = read(name)
		case strings.HasPrefix(name, durable.TempPrefix):
			err = os.Remove(filepath.Join(f.Dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EachVolume is [Folder.Each] for a folder with one record a volume.
func (f Folder) EachVolume(read func(volume backend.ID, path string) error) error {
	isRecord := func(name string) bool { _, is := VolumeOf(name); return is }
	return f.Each(isRecord, func(name string) error {
		volume, _ := VolumeOf(name)
		return read(volume, filepath.Join(f.Dir, name))
	})
}
