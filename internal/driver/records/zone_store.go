package records

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// Zone is one place for volumes.
type Zone struct {
	Name  string
	Bytes int64 // that all volumes of the zone can have together; 0 for no bound
}

// ZoneNames returns the names of zones, in their order.
func ZoneNames(zones []Zone) []string {
	names := make([]string, 0, len(zones))
	for _, z := range zones {
		names = append(names, z.Name)
	}
	return names
}

// placed is the zone of one volume, with the bytes that it counts for.
type placed struct {
	Volume backend.ID `json:"volume"`
	Zone   string     `json:"zone"`
	Bytes  int64      `json:"bytes"`
}

func (p placed) fileName() string { return nameOf(p.Volume) }
func (p placed) check() error     { return nil }

// ZoneStore holds the zone of every volume. Its methods may be called concurrently, but the caller must
// have claimed the volume that it changes.
type ZoneStore struct {
	zones []Zone
	mu    sync.Mutex // two volumes must not get the same room
	store Store[placed]
}

// NewZoneStore makes an empty store of a folder that holds the records and nothing else; Recover fills
// it. The records may use the reserve.
func NewZoneStore(dir string, zones []Zone, room *reserve.Reserve) *ZoneStore {
	return &ZoneStore{zones: zones, store: Store[placed]{
		dir: dir, room: room, state: "placed",
		mend: `write {"format":1,"volume":"ID","zone":"NAME","bytes":SIZE} into it`,
	}}
}

// Recover reads the records of the process before. It removes those of volumes that were never
// made, which exists reports. A damaged record of a volume that exists is an error, since the room of
// its zone is not known.
func (s *ZoneStore) Recover(ctx context.Context, exists func(backend.ID) (bool, error)) error {
	if err := s.store.load(ctx); err != nil {
		return err
	}
	names := s.store.broken()
	for _, r := range s.store.list(func(placed) bool { return true }) {
		names = append(names, r.fileName())
	}
	for _, name := range names {
		volume, _ := volumeOf(name)
		here, err := exists(volume)
		if err == nil && here {
			err = s.store.damageOf(volume)
		} else if err == nil {
			err = s.store.remove(name)
		}
		if err != nil {
			return fmt.Errorf("zone of a volume: %w", err)
		}
	}
	return nil
}

// Of returns the zone of a volume; false for a volume that was made without zones.
func (s *ZoneStore) Of(volume backend.ID) (string, bool) {
	r, ok := s.store.get(nameOf(volume))
	return r.Zone, ok
}

// Place records the zone of a volume that is about to be made: the first of the wanted zones that
// has room for it. The error is fault.Exhausted when none has.
func (s *ZoneStore) Place(volume backend.ID, bytes int64, wanted []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range wanted {
		if free, bounded := s.free(name, volume); !bounded || bytes <= free {
			return s.store.put(placed{volume, name, bytes}, false)
		}
	}
	return fault.Exhausted.Errorf("no room for %d bytes in %s", bytes, s.describe(wanted, volume))
}

// Resize records another size of a volume. The error is fault.OutOfRange when its zone has no room
// for it: a smaller size may fit.
func (s *ZoneStore) Resize(volume backend.ID, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.store.get(nameOf(volume))
	if !ok {
		return nil
	}
	if free, bounded := s.free(r.Zone, volume); bounded && bytes > free {
		return fault.OutOfRange.Errorf("no room for %d bytes in %s", bytes, s.describe([]string{r.Zone}, volume))
	}
	return s.store.put(placed{volume, r.Zone, max(r.Bytes, bytes)}, false)
}

// Remove forgets the zone of a volume that does not exist.
func (s *ZoneStore) Remove(volume backend.ID) error {
	if _, ok := s.store.get(nameOf(volume)); !ok {
		return nil
	}
	return s.store.remove(nameOf(volume))
}

// FreeBytes returns the bytes that new volumes of the wanted zones can have together; false when
// one of them has no bound.
func (s *ZoneStore) FreeBytes(wanted []string) (bytes int64, bounded bool) {
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
func (s *ZoneStore) free(name string, but backend.ID) (bytes int64, bounded bool) {
	at := slices.IndexFunc(s.zones, func(z Zone) bool { return z.Name == name })
	if at < 0 {
		return 0, true // a zone that is not configured any more takes no volumes
	}
	if s.zones[at].Bytes == 0 {
		return 0, false
	}
	bytes = s.zones[at].Bytes
	for _, r := range s.store.list(func(r placed) bool { return r.Zone == name && r.Volume != but }) {
		bytes -= r.Bytes
	}
	return bytes, true
}

func (s *ZoneStore) describe(wanted []string, but backend.ID) string {
	if len(wanted) == 0 {
		return "any zone: the zones of this driver are " + strings.Join(ZoneNames(s.zones), ", ")
	}
	parts := make([]string, 0, len(wanted))
	for _, name := range wanted {
		free, _ := s.free(name, but)
		parts = append(parts, fmt.Sprintf("zone %s (%d bytes left)", name, max(free, 0)))
	}
	return strings.Join(parts, ", ")
}
