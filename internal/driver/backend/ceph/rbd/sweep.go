package rbd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
)

// Sweeper removes deleted images that were left in the trash because clones read from them, and
// that no clone reads any more. When the driver removes the last clone, it removes them too. But
// the last clone may have been flattened, or removed by the cluster in the background, and neither
// is reported. So deletions check the trash from time to time.
type Sweeper struct {
	// Every is the shortest time between two sweeps of a pool; ten minutes when zero.
	Every time.Duration
	// For is how long a call goes on to the next image; two seconds when zero.
	// One that is still read costs two runs of the program and stays.
	For time.Duration

	mutex sync.Mutex
	// swept is how far the last look at a pool came, and when.
	swept map[handle.Place]progress
}

type progress struct {
	at time.Time
	// last is the image that was tried last; "" when none was left.
	last string
}

const (
	leftAlone = 10 * time.Minute
	sweeping  = 2 * time.Second
)

// Sweep is for a call that has deleted an image. It cannot fail: the next sweep retries.
func (s *Sweeper) Sweep(ctx context.Context, p Pool) {
	after, due := s.begin(p.Place)
	if !due {
		return
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("pool", p.Place.Pool)
	ours, err := p.trashOfOurs(ctx)
	if err != nil {
		log.Info("Images that no clone reads any more may be left in the trash", "cause", err.Error())
		return
	}
	for began := time.Now(); len(ours) > 0; {
		id := following(ours, after)
		ours = slices.DeleteFunc(ours, func(t trashed) bool { return t.ID == id })
		p.removeUnread(ctx, id)
		if after = id; time.Since(began) > cmp.Or(s.For, sweeping) || ctx.Err() != nil {
			s.end(p.Place, after)
			return
		}
	}
}

// begin returns the image after which to continue, and whether a sweep is due.
func (s *Sweeper) begin(p handle.Place) (after string, due bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.swept[p]
	if time.Since(before.at) < cmp.Or(s.Every, leftAlone) {
		return "", false
	}
	if s.swept == nil {
		s.swept = map[handle.Place]progress{}
	}
	s.swept[p] = progress{at: time.Now()}
	return before.last, true
}

func (s *Sweeper) end(p handle.Place, last string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.swept[p] = progress{at: time.Now(), last: last}
}

// following is the first image behind another one, and in the end the first of all.
func following(images []trashed, after string) string {
	ids := make([]string, 0, len(images))
	for _, image := range images {
		ids = append(ids, image.ID)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if id > after {
			return id
		}
	}
	return ids[0]
}

func (p Pool) trashOfOurs(ctx context.Context) ([]trashed, error) {
	all, err := p.trash(ctx, p.Place.Pool)
	return slices.DeleteFunc(all, func(t trashed) bool { return !p.isOurs(t.Name) }), err
}

// removeUnread tries to remove an image. It leaves one that is still read, without a log line,
// which was written when the image was deleted.
func (p Pool) removeUnread(ctx context.Context, id string) {
	i, err := p.infoByID(ctx, p.Place.Pool, id)
	if err != nil {
		return
	}
	quietly := logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).V(2))
	p.removeTrash(quietly, p.Place.Pool, id, i.Parent)
}
