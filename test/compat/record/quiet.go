package record

import (
	"context"
	"fmt"
	"time"
)

// probe shows that the work queues are empty: a claim and a volume that were created after all other
// objects were bound and deleted, so the earlier queue entries have been processed.
type probe struct {
	began   time.Time
	changed chan struct{}
	wanted  chan struct{} // has an element while a scenario waits
}

// Wanted returns a channel that has an element while a scenario waits for a probe.
func (r *Recorder) Wanted() <-chan struct{} { return r.probe.wanted }

// Probed records that the controllers have completed a probe that began at this time.
func (r *Recorder) Probed(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if began.After(r.probe.began) {
		r.probe.began = began
	}
	close(r.probe.changed)
	r.probe.changed = make(chan struct{})
}

// activity is the state of a scenario, with channels that are closed when it changes.
type activity struct {
	touched, probe  time.Time
	changed, beaten <-chan struct{}
}

func (r *Recorder) activity(scenario string) activity {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scene(scenario)
	return activity{s.touched, r.probe.began, s.changed, r.probe.changed}
}

func (r *Recorder) want() {
	select {
	case r.probe.wanted <- struct{}{}:
	default:
	}
}

// Quiet returns when a scenario has had no change for so long, and a probe that began after that has
// completed.
func (r *Recorder) Quiet(ctx context.Context, scenario string, calm time.Duration) error {
	for {
		now := r.activity(scenario)
		since := now.touched.Add(calm)
		if now.probe.After(since) {
			return nil
		}
		// Until it is calm the probes do not count, and afterwards only they do.
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
