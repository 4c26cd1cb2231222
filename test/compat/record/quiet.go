package record

import (
	"context"
	"fmt"
	"time"
)

// beat shows that the work queues are empty: a claim and a volume that were created after all other
// objects were bound and deleted, so the earlier queue entries have been processed.
type beat struct {
	began   time.Time
	changed chan struct{}
	wanted  chan struct{} // has an element while a scenario waits
}

// Wanted returns a channel that has an element while a scenario waits for a beat.
func (r *Recorder) Wanted() <-chan struct{} { return r.beat.wanted }

// Beat records that the controllers have completed a beat that began at this time.
func (r *Recorder) Beat(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.After(r.beat.began) {
		r.beat.began = began
	}
	close(r.beat.changed)
	r.beat.changed = make(chan struct{})
}

// pulse is the state of a scenario, with channels that are closed when it changes.
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

// Quiet returns when a scenario has had no change for so long, and a beat that began after that has
// completed.
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
