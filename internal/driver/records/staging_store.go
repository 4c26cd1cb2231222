package records

import (
	"context"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// StagingStore holds the stagings of one node, at most one of each volume. Its
// methods may be called concurrently, but the caller must have claimed the
// volume that it asks about.
type StagingStore struct{ store Store[Staging] }

// NewStagingStore makes an empty store of a folder that holds the records and nothing
// else; Recover fills it. The records may use the reserve.
func NewStagingStore(dir string, room *reserve.Reserve) *StagingStore {
	return &StagingStore{Store[Staging]{
		dir: dir, room: room, state: "staged",
		mend: "unstage the volume, or stop the driver and remove the file when the volume is not mounted",
	}}
}

// Recover reads the records of the process before. It does not check the mounts: no call
// needs it yet.
func (s *StagingStore) Recover(ctx context.Context) error { return s.store.load(ctx) }

// Heal replaces the damaged records by what the backend knows: find returns where a volume is
// staged, and false for one that is not. A record stays damaged where that has no answer.
func (s *StagingStore) Heal(ctx context.Context, find func(backend.ID) (staged Staging, found bool, err error)) error {
	for _, name := range s.store.broken() {
		volume, _ := volumeOf(name)
		log := logr.FromContextOrDiscard(ctx).WithValues("volume", volume.String())
		staged, found, err := find(volume)
		switch {
		case err != nil:
			log.Error(err, "Not known where the volume with a damaged staging record is staged")
			continue
		case !found:
			err = s.Remove(volume)
		case staged.Path == "":
			continue
		default:
			err = s.Put(staged)
		}
		if err != nil {
			return err
		}
		log.Info("Healed a damaged staging record", "staged", found, "path", staged.Path)
	}
	return nil
}

// Put records a staging that is about to be made.
func (s *StagingStore) Put(staged Staging) error { return s.store.put(staged, false) }

// Remove forgets a staging after it was undone, also one whose record is damaged.
func (s *StagingStore) Remove(volume backend.ID) error { return s.store.remove(nameOf(volume)) }

// Of gives the record of a volume, whether it is really staged or not. It
// refuses to answer when the record is damaged.
func (s *StagingStore) Of(volume backend.ID) (staged Staging, found bool, err error) {
	staged, found = s.store.get(nameOf(volume))
	return staged, found, s.store.damageOf(volume)
}
