package staging

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// Store holds the stagings of one node, at most one of each volume. Its
// methods may be called concurrently, but the caller must have claimed the
// volume that it asks about.
type Store struct {
	dir string
	mu  sync.Mutex
	// records and damaged are by volume; no volume is in both.
	records map[backend.ID]Record
	damaged map[backend.ID]error
}

// NewStore makes an empty store of a folder that holds the records and nothing
// else; Recover fills it.
func NewStore(dir string) *Store {
	return &Store{dir: dir, records: map[backend.ID]Record{}, damaged: map[backend.ID]error{}}
}

// Recover reads the records of a predecessor. It does not check the mounts: with a remote backend
// that could hang, and no call needs it yet.
func (s *Store) Recover(ctx context.Context) error {
	return records.Folder{Dir: s.dir, What: "stagings"}.EachVolume(func(volume backend.ID, path string) error {
		return s.load(ctx, volume, path)
	})
}

// load reads one record.
func (s *Store) load(ctx context.Context, volume backend.ID, path string) error {
	staged, err := read(path)
	if err == nil && staged.Volume != volume {
		err = errors.New("it is about another volume")
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "A staging record is damaged: its volume counts as staged", "path", path)
		s.damaged[volume] = err
		return nil
	}
	s.records[volume] = staged
	return nil
}

func read(path string) (Record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	return decode(content)
}

// Put records a staging that is about to be made.
func (s *Store) Put(staged Record) error {
	content, err := encode(staged)
	if err != nil {
		return fmt.Errorf("encode a staging: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(s.dir, records.Name(staged.Volume)), s.dir, content); err != nil {
		return fmt.Errorf("record a staging: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[staged.Volume] = staged
	delete(s.damaged, staged.Volume)
	return nil
}

// Remove forgets a staging after it was undone, also one whose record is
// damaged. It is not synced: a record that comes back after a power loss is
// one of something that is not there, and is cleared away as such.
func (s *Store) Remove(volume backend.ID) error {
	err := os.Remove(filepath.Join(s.dir, records.Name(volume)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a staging: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, volume)
	delete(s.damaged, volume)
	return nil
}

// Of gives the record of a volume, whether it is really staged or not. It
// refuses to answer when the record is damaged: "not staged" could delete the
// volume under a running pod.
func (s *Store) Of(volume backend.ID) (staged Record, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause, damaged := s.damaged[volume]; damaged {
		return Record{}, false, fault.Internal.Errorf("cannot tell where volume %q is staged: %s is damaged: %w; "+
			"unstage the volume, or stop the driver and remove the file when the volume is not mounted",
			volume, filepath.Join(s.dir, records.Name(volume)), cause)
	}
	staged, found = s.records[volume]
	return staged, found, nil
}
