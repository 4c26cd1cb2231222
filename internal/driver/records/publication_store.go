package records

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// MountChecker says whether target shows source.
type MountChecker interface {
	IsBound(source, target string) (bool, error)
}

// PublicationConfig is what a Store needs.
type PublicationConfig struct {
	// Dir holds the records and nothing else.
	Dir     string
	Checker MountChecker
	// Reserve is what the records may use; nil for none.
	Reserve *reserve.Reserve
}

// PublicationStore holds the publications of one node. Its methods may be called
// concurrently, but the caller must have claimed what it asks about, the volume
// or the target: between Put and the mount a record looks like one whose mount
// is gone, and only that claim keeps others from dropping it.
type PublicationStore struct {
	checker MountChecker
	store   Store[Publication]
}

// NewPublicationStore makes an empty store; Recover fills it from disk.
func NewPublicationStore(config PublicationConfig) *PublicationStore {
	return &PublicationStore{
		config.Checker,
		Store[Publication]{
			dir: config.Dir, room: config.Reserve, state: "published",
			mend: "unpublish the volume, or stop the driver and remove the file when the volume is not mounted",
		},
	}
}

// Recover reads the records of the process before and drops those whose mount did
// not survive: the machine was restarted, or the mount was removed by hand.
func (s *PublicationStore) Recover(ctx context.Context) error {
	if err := s.store.load(ctx); err != nil {
		return err
	}
	for _, published := range s.records(func(Publication) bool { return true }) {
		if _, err := s.keepIfLive(ctx, published); err != nil {
			return err
		}
	}
	return nil
}

// Put records a publication that is about to be made.
func (s *PublicationStore) Put(published Publication) error { return s.store.put(published, false) }

// Remove forgets a publication after it was undone, also one whose record is damaged.
func (s *PublicationStore) Remove(volume backend.ID, target string) error {
	return s.store.remove(fileName(volume, target))
}

// At gives the record for target, whether its mount is there or not.
func (s *PublicationStore) At(target string) (published Publication, found bool) {
	for _, published := range s.records(func(r Publication) bool { return r.Target == target }) {
		return published, true
	}
	return Publication{}, false
}

// LiveAt gives the publication at a target that the caller has claimed.
// Without its mount it is dropped and not found.
func (s *PublicationStore) LiveAt(ctx context.Context, target string) (record Publication, found bool, err error) {
	record, found = s.At(target)
	if !found {
		return Publication{}, false, nil
	}
	found, err = s.keepIfLive(ctx, record)
	return record, found, err
}

// Live gives the publications of a volume that the caller has claimed, by
// target. Records whose mount is gone are dropped: otherwise a mount that was
// removed behind the driver's back would keep the volume in use for ever.
func (s *PublicationStore) Live(ctx context.Context, volume backend.ID) ([]Publication, error) {
	if err := s.store.damageOf(volume); err != nil {
		return nil, err
	}
	var live []Publication
	for _, record := range s.records(func(r Publication) bool { return r.Volume == volume }) {
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

// keepIfLive drops a record without a mount. When it cannot tell, it keeps it:
// refusing to delete an unused volume is the smaller harm.
func (s *PublicationStore) keepIfLive(ctx context.Context, record Publication) (kept bool, err error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("volume", record.Volume.String(), "target", record.Target)
	bound, err := s.checker.IsBound(record.Source, record.Target)
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

// records returns those that match, ordered by target.
func (s *PublicationStore) records(match func(Publication) bool) []Publication {
	matching := s.store.list(match)
	slices.SortFunc(matching, func(a, b Publication) int { return cmp.Compare(a.Target, b.Target) })
	return matching
}
