package snapshotmetadata

import (
	"context"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/snapshotmetadata/rules"
)

// The limits (CB-H4). A backup program has one account for all its streams, so that of a user is
// generous.
const (
	mostStreams       = 256
	mostStreamsOfUser = 64
	// mostReviews is how many clients are reviewed at a time: tokens that no API server knows must
	// not become as many requests to it.
	mostReviews = 8
	// mostWaiting is how many more clients wait for a review.
	mostWaiting = 256
	// mostLists is how many requests list the VolumeSnapshotContents of the cluster at a time.
	mostLists = 4
)

// limits counts the open streams, and the reviews and lists in flight.
type limits struct {
	streams chan struct{} // of the whole server, before their users are known
	reviews chan struct{}
	waiting chan struct{} // for a review
	lists   chan struct{}

	mu    sync.Mutex
	all   int
	users map[string]int
}

func newLimits() *limits {
	return &limits{
		streams: make(chan struct{}, mostOfServer), reviews: make(chan struct{}, mostReviews),
		waiting: make(chan struct{}, mostWaiting), lists: make(chan struct{}, mostLists), users: map[string]int{},
	}
}

// review waits for one of the reviews that may be in flight, at most for a time, and beside a
// limited number of others.
func (l *limits) review(ctx context.Context, most time.Duration) (release func(), err error) {
	select {
	case l.waiting <- struct{}{}:
	default:
		return nil, rules.Busy()
	}
	defer func() { <-l.waiting }()
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	release, err = acquire(waiting, l.reviews)
	if err != nil && ctx.Err() == nil {
		return nil, rules.Busy()
	}
	return release, err
}

// acquire waits for a place until ctx ends.
func acquire(ctx context.Context, places chan struct{}) (release func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open counts a stream of a user until release is called.
func (l *limits) open(user string) (release func(), refusal *rules.Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.users[user] >= mostStreamsOfUser:
		return nil, rules.TooMany(mostStreamsOfUser, "the user")
	case l.all >= mostStreams:
		return nil, rules.TooMany(mostStreams, "the service")
	}
	l.all++
	l.users[user]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.users[user]--; l.users[user] == 0 {
			delete(l.users, user)
		}
	}, nil
}
