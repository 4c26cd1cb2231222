package zone

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// Zone is one place for volumes.
type Zone struct {
	Name  string
	Bytes int64 // that all volumes of the zone can have together; 0 for no bound
}

// Names returns the names of zones, in their order.
func Names(zones []Zone) []string {
	names := make([]string, 0, len(zones))
	for _, z := range zones {
		names = append(names, z.Name)
	}
	return names
}

// placed is the zone of one volume, with the bytes that it counts for.
type placed struct {
	Zone  string `json:"zone"`
	Bytes int64  `json:"bytes"`
}

// Store holds the zone of every volume. Its methods may be called concurrently, but the caller must
// have claimed the volume that it changes.
type Store struct {
	dir   string
	zones []Zone

	mu      sync.Mutex
	records map[backend.ID]placed
}

// NewStore makes an empty store of a folder that holds the records and nothing else; Recover fills
// it.
func NewStore(dir string, zones []Zone) *Store {
	return &Store{dir: dir, zones: zones, records: map[backend.ID]placed{}}
}

// Recover reads the records of the process before. It removes those of volumes that were never
// made, which exists reports.
func (s *Store) Recover(exists func(backend.ID) (bool, error)) error {
	folder := records.Folder{Dir: s.dir, What: "zones of volumes"}
	return folder.EachVolume(func(volume backend.ID, path string) error {
		if err := s.load(volume, path, exists); err != nil {
			return fmt.Errorf("zone of a volume: %w", err)
		}
		return nil
	})
}

func (s *Store) path(volume backend.ID) string { return filepath.Join(s.dir, records.Name(volume)) }

func (s *Store) load(volume backend.ID, path string, exists func(backend.ID) (bool, error)) error {
	here, err := exists(volume)
	if err != nil {
		return err
	}
	if !here {
		return durable.Remove(path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r placed
	if err := json.Unmarshal(content, &r); err != nil {
		return fmt.Errorf("%s: %w; write {\"zone\":\"NAME\",\"bytes\":SIZE} into it", path, err)
	}
	s.records[volume] = r
	return nil
}

// Of returns the zone of a volume; false for a volume that was made without zones.
func (s *Store) Of(volume backend.ID) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[volume]
	return r.Zone, ok
}

// Place records the zone of a volume that is about to be made: the first of the wanted zones that
// has room for it. The error is fault.Exhausted when none has.
func (s *Store) Place(volume backend.ID, bytes int64, wanted []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range wanted {
		if free, bounded := s.free(name, volume); !bounded || bytes <= free {
			return s.put(volume, placed{Zone: name, Bytes: bytes})
		}
	}
	return fault.Exhausted.Errorf("no room for %d bytes in %s", bytes, s.describe(wanted, volume))
}

// Resize records another size of a volume. The error is fault.OutOfRange when its zone has no room
// for it: a smaller size may fit.
func (s *Store) Resize(volume backend.ID, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[volume]
	if !ok {
		return nil
	}
	if free, bounded := s.free(r.Zone, volume); bounded && bytes > free {
		return fault.OutOfRange.Errorf("no room for %d bytes in %s", bytes, s.describe([]string{r.Zone}, volume))
	}
	return s.put(volume, placed{Zone: r.Zone, Bytes: max(r.Bytes, bytes)})
}

// Remove forgets the zone of a volume that does not exist.
func (s *Store) Remove(volume backend.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.records[volume]; !ok {
		return nil
	}
	if err := durable.Remove(s.path(volume)); err != nil {
		return fault.Internal.Errorf("forget the zone of volume %q: %w", volume, err)
	}
	delete(s.records, volume)
	return nil
}

// FreeBytes returns the bytes that new volumes of the wanted zones can have together; false when
// one of them has no bound.
func (s *Store) FreeBytes(wanted []string) (bytes int64, bounded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range wanted {
		free, bounded := s.free(name, backend.ID{})
		if !bounded {
			return 0, false
		}
		bytes += max(free, 0)
	}
	return bytes, true
}

// free returns the bytes that one volume can have in a zone beside all others.
func (s *Store) free(name string, but backend.ID) (bytes int64, bounded bool) {
	at := slices.IndexFunc(s.zones, func(z Zone) bool { return z.Name == name })
	if at < 0 {
		return 0, true // a zone that is not configured any more takes no volumes
	}
	if s.zones[at].Bytes == 0 {
		return 0, false
	}
	bytes = s.zones[at].Bytes
	for volume, r := range s.records {
		if r.Zone == name && volume != but {
			bytes -= r.Bytes
		}
	}
	return bytes, true
}

func (s *Store) describe(wanted []string, but backend.ID) string {
	if len(wanted) == 0 {
		return "any zone: the zones of this driver are " + strings.Join(Names(s.zones), ", ")
	}
	parts := make([]string, 0, len(wanted))
	for _, name := range wanted {
		free, _ := s.free(name, but)
		parts = append(parts, fmt.Sprintf("zone %s (%d bytes left)", name, max(free, 0)))
	}
	return strings.Join(parts, ", ")
}

func (s *Store) put(volume backend.ID, r placed) error {
	content, err := json.Marshal(r)
	if err == nil {
		err = durable.WriteFile(s.path(volume), s.dir, append(content, '\n'))
	}
	if err != nil {
		return fault.Internal.Errorf("record the zone of volume %q: %w", volume, err)
	}
	s.records[volume] = r
	return nil
}
