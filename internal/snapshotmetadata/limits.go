package snapshotmetadata

import (
	"context"
	"sync"

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
)

// limits counts the open streams, and the reviews in flight.
type limits struct {
	reviews chan struct{}

	mu    sync.Mutex
	all   int
	users map[string]int
}

func newLimits() *limits {
	return &limits{reviews: make(chan struct{}, mostReviews), users: map[string]int{}}
}

// review waits for one of the reviews that may be in flight.
func (l *limits) review(ctx context.Context) (release func(), err error) {
	select {
	case l.reviews <- struct{}{}:
		return func() { <-l.reviews }, nil
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
