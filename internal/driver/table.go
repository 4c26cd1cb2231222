package driver

import (
	"slices"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Claim is an object that an operation needs while it runs.
type Claim struct {
	object string
	shared bool
}

// Alone keeps every other operation away from the object.
func Alone(object string) Claim { return Claim{object: object} }

// Shared keeps away only those that claim the object alone: it is read.
func Shared(object string) Claim { return Claim{object: object, shared: true} }

// InFlight holds the running operations by their objects.
type InFlight struct {
	now     func() time.Time
	mu      sync.Mutex
	running map[string][]*operation
}

type operation struct {
	name   string
	since  time.Time
	shared bool
}

// NewInFlight makes an empty table that reads the time from now.
func NewInFlight(now func() time.Time) *InFlight {
	return &InFlight{now: now, running: map[string][]*operation{}}
}

// Start claims every object for the named operation, or none: then the error
// is of kind fault.Busy. The objects are claimed in one step, so two
// operations with the same ones in another order cannot block each other. The
// caller must call release exactly once when the operation is over.
func (t *InFlight) Start(name string, claims ...Claim) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for _, claim := range claims {
		for _, other := range t.running[claim.object] {
			if !claim.shared || !other.shared {
				return nil, fault.Busy.Errorf("%s for %q has been running for %s; %s has to wait until it is done, "+
					"try again",
					other.name, claim.object, now.Sub(other.since).Round(time.Millisecond), name)
			}
		}
	}
	mine := make([]*operation, 0, len(claims))
	for _, claim := range claims {
		o := &operation{name: name, since: now, shared: claim.shared}
		mine = append(mine, o)
		t.running[claim.object] = append(t.running[claim.object], o)
	}
	return func() { t.finish(claims, mine) }, nil
}

func (t *InFlight) finish(claims []Claim, mine []*operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, claim := range claims {
		left := slices.DeleteFunc(t.running[claim.object], func(o *operation) bool { return o == mine[i] })
		if len(left) == 0 {
			delete(t.running, claim.object)
			continue
		}
		t.running[claim.object] = left
	}
}
