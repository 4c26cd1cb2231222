package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

const (
	// suffix ends the name of every record.
	suffix = ".json"
	// thisFormat is in every record. It is raised when another program would misread the file.
	thisFormat = 1
)

// nameOf returns the name of the file of a volume, where a volume has one record.
func nameOf(volume backend.ID) string { return volume.String() + suffix }

// volumeOf returns the volume of a record from the name of its file, so that even a damaged record
// tells whose it is; false for any other file.
func volumeOf(name string) (volume backend.ID, isRecord bool) {
	text, isRecord := strings.CutSuffix(name, suffix)
	text, _, _ = strings.Cut(text, "@")
	volume, err := backend.ParseID(text)
	return volume, isRecord && err == nil
}

// entry is what a [Store] holds, with its layout in JSON.
type entry interface {
	// fileName is unique; [volumeOf] returns the volume.
	fileName() string
	// check returns what is missing in a record that was read.
	check() error
}

// Store holds records in memory and on disk: a folder with one file a record, and nothing else. The
// zero value needs dir, state and mend. Its methods may be called concurrently.
type Store[T entry] struct {
	dir   string
	state string // what a volume with a record is: "staged"
	mend  string // what an operator does about a damaged record
	room  *reserve.Reserve

	mu sync.Mutex
	// records and damaged are by the name of the file; no name is in both.
	records map[string]T
	damaged map[string]error
}

// load reads the records of the process before, makes the folder where it is absent, and removes
// what a killed write left. A volume id can begin like a temporary file, but only a record ends like
// one. A record that cannot be read blocks its volume alone, see [Store.damageOf].
func (s *Store[T]) load(ctx context.Context) error {
	s.records, s.damaged = map[string]T{}, map[string]error{}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of records: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("list the records: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		path := filepath.Join(s.dir, name)
		if _, isRecord := volumeOf(name); !isRecord {
			if strings.HasPrefix(name, durable.TempPrefix) {
				err = errors.Join(err, os.Remove(path))
			}
			continue
		}
		if s.records[name], s.damaged[name] = read[T](path); s.damaged[name] == nil {
			delete(s.damaged, name)
			continue
		}
		delete(s.records, name)
		logr.FromContextOrDiscard(ctx).
			Error(s.damaged[name], "A record is damaged: its volume counts as "+s.state, "path", path)
	}
	return err
}

func read[T entry](path string) (r T, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	var of struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(content, &of); err != nil {
		return r, err
	}
	if of.Format != thisFormat {
		return r, fmt.Errorf("format %d, this program reads format %d", of.Format, thisFormat)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, err
	}
	if r.fileName() != filepath.Base(path) {
		return r, errors.New("its content belongs in another file")
	}
	return r, r.check()
}

// encode returns the content of a file, which an administrator can read.
func encode(r any) ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "{\n  \"format\": %d,%s\n", thisFormat, text[1:]), nil
}

// put writes a record, also in place of a damaged one. smaller says that it replaces one that is not
// shorter: that is possible in a full pool.
func (s *Store[T]) put(r T, smaller bool) error {
	name := r.fileName()
	path := filepath.Join(s.dir, name)
	content, err := encode(r)
	if err == nil {
		err = s.room.WriteFile(path, s.dir, content)
	}
	if smaller && reserve.IsFull(err) {
		err = durable.Shorten(path, content)
	}
	if err != nil {
		return fault.KindOf(err).Errorf("record that volume %q is %s: %w", volumeText(name), s.state, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = r
	delete(s.damaged, name)
	return nil
}

// remove deletes a record for good, also a damaged one. One that is not there is no error.
func (s *Store[T]) remove(name string) error {
	if err := durable.Remove(filepath.Join(s.dir, name)); err != nil {
		return fault.Internal.Errorf("remove the record that volume %q is %s: %w", volumeText(name), s.state, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, name)
	delete(s.damaged, name)
	return nil
}

func volumeText(name string) string {
	volume, _ := volumeOf(name)
	return volume.String()
}

// get returns the record with this name, if it can be read.
func (s *Store[T]) get(name string) (r T, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, found = s.records[name]
	return r, found
}

// list returns the records that match, in the order of their names.
func (s *Store[T]) list(match func(T) bool) (matching []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		if r := s.records[name]; match(r) {
			matching = append(matching, r)
		}
	}
	return matching
}

// broken returns the names of the damaged records.
func (s *Store[T]) broken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.damaged))
}

// damageOf returns an error for a volume with a damaged record: "not published" could delete the
// volume under a running pod, and "not attached" give it to a second node.
func (s *Store[T]) damageOf(volume backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, cause := range s.damaged {
		if of, _ := volumeOf(name); of == volume {
			return fault.Internal.Errorf("cannot tell where volume %q is %s: %s is damaged: %w; %s",
				volume, s.state, filepath.Join(s.dir, name), cause, s.mend)
		}
	}
	return nil
}
