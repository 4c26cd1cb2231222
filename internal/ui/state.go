package ui

import (
	"sync"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// State is what pages show: the objects of one time, and what is known of earlier times. It is safe
// for several goroutines.
type State struct {
	// Title names the source, such as a context of a kubeconfig or a file.
	Title string
	// Live says that a newer state may follow.
	Live bool
	// Cluster has the objects of the newest time.
	Cluster *explain.Cluster
	// Changes returns the changes up to that time. It is called once, for the first page that needs
	// them.
	Changes func() *life.History
	// At returns the objects at an earlier time; nil if the source has one time only.
	At func(time.Time) (*explain.Cluster, error)
	// Namespace keeps the board to one namespace; empty for all.
	Namespace string
	// Rates are the metrics of the roles; nil if none are known.
	Rates *Rates
	// Notes say what of the source could not be used.
	Notes []string

	mu      sync.Mutex // explanations and lives are for one goroutine
	history *life.History
	shown   *board
	lives   map[explain.Ref][]life.Life
	numbers *numbers
}

// mostLives bounds the lives that a state keeps for the next request.
const mostLives = 100

// past returns the changes. The caller holds the lock.
func (s *State) past() *life.History {
	if s.history == nil {
		s.history = s.Changes()
	}
	return s.history
}

// board returns the board without a filter.
func (s *State) board() *board {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.boardLocked()
}

func (s *State) boardLocked() *board {
	if s.shown == nil {
		s.shown = boardOf(s.Cluster, s.Namespace)
	}
	return s.shown
}

// livesOf returns the lives that an object belongs to. The caller holds the lock.
func (s *State) livesOf(ref explain.Ref) []life.Life {
	switch ref.Kind {
	case explain.Claim, explain.Volume, explain.Pod, explain.Snapshot, explain.Attachment:
	default:
		return nil
	}
	if lives, known := s.lives[ref]; known {
		return lives
	}
	lives := s.past().Lives(ref)
	if s.lives == nil || len(s.lives) >= mostLives {
		s.lives = map[explain.Ref][]life.Life{}
	}
	s.lives[ref] = lives
	return lives
}

// begin returns the first time of which all objects are known; the zero time if there is one time
// only. The caller holds the lock.
func (s *State) begin() time.Time {
	if s.At == nil {
		return time.Time{}
	}
	return s.past().Begin
}

// Prepare computes what the first page needs, so that no reader waits for it.
func (s *State) Prepare() { s.board() }
