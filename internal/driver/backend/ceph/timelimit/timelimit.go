package timelimit

import (
	"context"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// DefaultGrace is for a Keeper that has none.
const DefaultGrace = 5 * time.Second

// Keeper knows which work hangs.
type Keeper struct {
	grace time.Duration
	now   func() time.Time

	mutex   sync.Mutex
	hanging map[string]hang
}

type hang struct {
	doing string
	since time.Time
}

// NewKeeper returns a Keeper. The grace is how long work may take to end after its context has
// ended; DefaultGrace when zero.
func NewKeeper(grace time.Duration) *Keeper {
	if grace == 0 {
		grace = DefaultGrace
	}
	return &Keeper{grace: grace, now: time.Now, hanging: map[string]hang{}}
}

// Work is an operation that may hang.
type Work struct {
	// Target names the object that no other work may use while this work hangs; none when empty.
	Target string
	// Doing is what errors say of it.
	Doing string
	// Bound is how long it may take.
	Bound time.Duration
}

// Do runs some work, which should end when its context does. The error is of
// kind fault.Away when it does not even then, and of kind fault.Busy while an
// earlier work with the same target still hangs.
func Do[T any](ctx context.Context, k *Keeper, w Work, run func(context.Context) (T, error)) (T, error) {
	var none T
	if err := k.refuse(w); err != nil {
		return none, err
	}
	began := k.now()
	bounded, cancel := context.WithTimeout(ctx, w.Bound)
	type answer struct {
		value T
		err   error
	}
	answered, ended := make(chan answer, 1), make(chan struct{})
	go func() {
		defer cancel()
		defer close(ended)
		value, err := run(bounded)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-bounded.Done():
	}
	grace := time.NewTimer(k.grace)
	defer grace.Stop()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-grace.C:
		k.remember(w, began, ended)
		return none, fault.Away.Errorf(
			"%s does not end, %s after it began: it waits in the kernel of this machine for a cluster that does not answer; see what `ceph -s` and `dmesg` say",
			w.Doing,
			k.now().Sub(began).Round(time.Second),
		)
	}
}

func (k *Keeper) refuse(w Work) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	h, is := k.hanging[w.Target]
	if !is {
		return nil
	}
	return fault.Busy.Errorf(
		"%s has been hanging since %s (%s) and cannot be stopped: it waits in the kernel of this machine for a cluster that does not answer; %s has to wait until it ends. See what `ceph -s` and `dmesg` say",
		h.doing,
		h.since.UTC().Format(time.RFC3339),
		k.now().Sub(h.since).Round(time.Second),
		w.Doing,
	)
}

func (k *Keeper) remember(w Work, since time.Time, ended <-chan struct{}) {
	if w.Target == "" {
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.hanging[w.Target] = hang{doing: w.Doing, since: since}
	go func() {
		<-ended
		k.mutex.Lock()
		defer k.mutex.Unlock()
		delete(k.hanging, w.Target)
	}()
}
