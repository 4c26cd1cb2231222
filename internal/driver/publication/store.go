package publication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// Checker says whether target shows source.
type Checker interface {
	IsBound(source, target string) (bool, error)
}

// Config is what a Store needs.
type Config struct {
	// Dir holds the records and nothing else.
	Dir     string
	Checker Checker
}

// Store holds the publications of one node. Its methods may be called
// concurrently, but the caller must have claimed what it asks about, the volume
// or the target: between Put and the mount a record looks like one whose mount
// is gone, and only that claim keeps others from dropping it.
type Store struct {
	config Config
	mu     sync.Mutex
	byPath map[string]Record
	// damaged holds the records that cannot be read, by file name.
	damaged map[string]damage
}

type damage struct {
	volume backend.ID
	cause  error
}

// NewStore makes an empty store; Recover fills it from disk.
func NewStore(config Config) *Store {
	return &Store{config: config, byPath: map[string]Record{}, damaged: map[string]damage{}}
}

// Recover reads the records of a predecessor and drops those whose mount did
// not survive: the machine was restarted, or the mount was removed by hand.
func (s *Store) Recover(ctx context.Context) error {
	folder := records.Folder{Dir: s.config.Dir, What: "publications"}
	isRecord := func(name string) bool { _, is := volumeOf(name); return is }
	if err := folder.Each(isRecord, func(name string) error { return s.load(ctx, name) }); err != nil {
		return err
	}
	for _, published := range s.records(func(Record) bool { return true }) {
		if _, err := s.keepIfLive(ctx, published); err != nil {
			return err
		}
	}
	return nil
}

// load reads one record.
func (s *Store) load(ctx context.Context, name string) error {
	path := filepath.Join(s.config.Dir, name)
	volume, _ := volumeOf(name)
	record, err := readRecord(path)
	if err == nil && fileName(record.Volume, record.Target) != name {
		err = errors.New("its volume or target belongs in another file")
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).
			Error(err, "A publication record is damaged: its volume counts as published", "path", path)
		s.damaged[name] = damage{volume, err}
		return nil
	}
	s.remember(record)
	return nil
}

func readRecord(path string) (Record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	return decode(content)
}

// Put records a publication that is about to be made.
func (s *Store) Put(record Record) error {
	content, err := encode(record)
	if err != nil {
		return fmt.Errorf("encode a publication: %w", err)
	}
	path := filepath.Join(s.config.Dir, fileName(record.Volume, record.Target))
	if err := durable.WriteFile(path, s.config.Dir, content); err != nil {
		return fmt.Errorf("record a publication: %w", err)
	}
	s.remember(record)
	return nil
}

// Remove forgets a publication after it was undone, also one whose record is
// damaged. It is not synced: a record that comes back after a power loss has
// no mount and is dropped.
func (s *Store) Remove(volume backend.ID, target string) error {
	name := fileName(volume, target)
	err := os.Remove(filepath.Join(s.config.Dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a publication: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byPath, target)
	delete(s.damaged, name)
	return nil
}

// At gives the record for target, whether its mount is there or not.
func (s *Store) At(target string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, found := s.byPath[target]
	return record, found
}

// LiveAt gives the publication at a target that the caller has claimed.
// Without its mount it is dropped and not found.
func (s *Store) LiveAt(ctx context.Context, target string) (record Record, found bool, err error) {
	record, found = s.At(target)
	if !found {
		return Record{}, false, nil
	}
	found, err = s.keepIfLive(ctx, record)
	return record, found, err
}

// Live gives the publications of a volume that the caller has claimed, by
// target. Records whose mount is gone are dropped: otherwise a mount that was
// removed behind the driver's back would keep the volume in use for ever.
func (s *Store) Live(ctx context.Context, volume backend.ID) ([]Record, error) {
	if err := s.damageOf(volume); err != nil {
		return nil, err
	}
	var live []Record
	for _, record := range s.records(func(r Record) bool { return r.Volume == volume }) {
		kept, err := s.keepIfLive(ctx, record)
		if err != nil {
			return nil, err
		}
		if kept {
			live = append(live, record)
		}
	}
	return live, nil
}

// damageOf refuses to answer for a volume with a damaged record: "not
// published" could delete it under a running pod.
func (s *Store) damageOf(volume backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range s.damaged {
		if d.volume == volume {
			return fault.Internal.Errorf("cannot tell where volume %q is published: %s is damaged: %w; "+
				"unpublish the volume, or stop the driver and remove the file when the volume is not mounted",
				volume, filepath.Join(s.config.Dir, name), d.cause)
		}
	}
	return nil
}

// keepIfLive drops a record without a mount. When it cannot tell, it keeps it:
// refusing to delete an unused volume is the smaller harm.
func (s *Store) keepIfLive(ctx context.Context, record Record) (kept bool, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("volume", record.Volume.String(), "target", record.Target)
	bound, err := s.config.Checker.IsBound(record.Source, record.Target)
	if err != nil {
		log.Error(err, "Cannot tell whether the volume is still published here")
		return true, nil
	}
	if bound {
		return true, nil
	}
	log.Info("Dropped a publication whose mount is gone")
	return false, s.Remove(record.Volume, record.Target)
}

func (s *Store) remember(record Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byPath[record.Target] = record
	delete(s.damaged, fileName(record.Volume, record.Target))
}

// records is a copy of those that match, ordered by target.
func (s *Store) records(match func(Record) bool) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []Record
	for _, record := range s.byPath {
		if match(record) {
			records = append(records, record)
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Target, b.Target) })
	return records
}
