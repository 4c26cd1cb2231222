package record

import (
	"context"
	"fmt"
	"time"
)

// beat is the pulse of the controllers: a claim and a volume that were put before them after
// everything else were bound and deleted. What was in their queues before has been looked at by
// then.
type beat struct {
	began   time.Time
	changed chan struct{}
	wanted  chan struct{} // has one in it when a user waits
}

// Wanted is how the pulse hears that a user waits for a beat.
func (r *Recorder) Wanted() <-chan struct{} { return r.beat.wanted }

// Beat tells that the controllers have done a piece of work that began then.
func (r *Recorder) Beat(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.After(r.beat.began) {
		r.beat.began = began
	}
	close(r.beat.changed)
	r.beat.changed = make(chan struct{})
}

// pulse is a scenario's state at one moment, and what is closed when it is another.
type pulse struct {
	touched, beat   time.Time
	changed, beaten <-chan struct{}
}

func (r *Recorder) pulse(scenario string) pulse {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scene(scenario)
	return pulse{s.touched, r.beat.began, s.changed, r.beat.changed}
}

func (r *Recorder) want() {
	select {
	case r.beat.wanted <- struct{}{}:
	default:
	}
}

// Quiet returns when nothing has happened to a scenario for so long, and the controllers have since
// then been seen to have nothing older to do.
func (r *Recorder) Quiet(ctx context.Context, scenario string, calm time.Duration) error {
	for {
		now := r.pulse(scenario)
		since := now.touched.Add(calm)
		if now.beat.After(since) {
			return nil
		}
		// Until it is calm the beats do not count, and afterwards only they do.
		alarm, beaten := time.NewTimer(time.Until(since)), now.beaten
		if time.Now().Before(since) {
			beaten = nil
		} else {
			alarm.Stop()
			r.want()
		}
		select {
		case <-alarm.C:
		case <-beaten:
		case <-now.changed:
		case <-ctx.Done():
		}
		alarm.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("it has not become quiet: %w", context.Cause(ctx))
		}
	}
}
