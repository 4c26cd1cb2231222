package loopfile

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

var backgroundCopying = Task{Key: "vol", Doing: "copy vol", Request: "a"}

// brief calls with a time that is over soon.
func brief(r *Runner, e Task, work func(context.Context) (int, error)) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return Do(ctx, r, e, work)
}

// long takes an hour, and counts how often it is begun.
func long(begun *atomic.Int32, value int, err error) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		begun.Add(1)
		select {
		case <-time.After(time.Hour):
			return value, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func TestWorkGoesOnAndIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := NewRunner(), new(atomic.Int32)
		defer r.End(time.Second)
		for range 10 {
			_, err := brief(r, backgroundCopying, long(begun, 7, nil))
			if !fault.Busy.Is(err) || !strings.Contains(err.Error(), "to copy vol takes long") {
				t.Errorf("%v, want busy", err)
			}
		}
		if err := r.Running(backgroundCopying); !fault.Busy.Is(err) {
			t.Errorf("Running: %v, want busy", err)
		}
		got, err := Do(t.Context(), r, backgroundCopying, long(begun, 8, nil))
		if got != 7 || err != nil || begun.Load() != 1 {
			t.Errorf("%d, %v, begun %d times", got, err, begun.Load())
		}
		if err := r.Running(backgroundCopying); err != nil {
			t.Errorf("Running: %v", err)
		}
	})
}

// An error that no caller waited for is for the next caller, once. A success is
// for no caller: what was made is there.
func TestAnErrorIsKeptForTheNextCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := NewRunner(), new(atomic.Int32)
		defer r.End(time.Second)
		broken := errors.New("broken")
		_, _ = brief(r, backgroundCopying, long(begun, 0, broken))
		time.Sleep(time.Hour + time.Minute)
		if _, err := brief(r, backgroundCopying, long(begun, 0, nil)); !errors.Is(err, broken) || begun.Load() != 1 {
			t.Errorf("%v, begun %d times, want the error of the first", err, begun.Load())
		}
		_, _ = brief(r, backgroundCopying, long(begun, 0, broken))
		time.Sleep(2 * time.Hour)
		if _, err := brief(r, backgroundCopying, long(begun, 0, nil)); !fault.Busy.Is(err) || begun.Load() != 3 {
			t.Errorf("%v, begun %d times: an old error is not kept", err, begun.Load())
		}
		time.Sleep(time.Hour)
		if _, err := brief(r, backgroundCopying, long(begun, 0, nil)); !fault.Busy.Is(err) || begun.Load() != 4 {
			t.Errorf("%v, begun %d times: a success is not kept", err, begun.Load())
		}
	})
}

// The result of one request is not the answer to another.
func TestAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := NewRunner(), new(atomic.Int32)
		defer r.End(time.Second)
		other := backgroundCopying
		other.Request = "b"
		_, _ = brief(r, backgroundCopying, long(begun, 7, errors.New("broken")))
		if _, err := brief(r, other, long(begun, 8, nil)); !fault.Busy.Is(err) || begun.Load() != 1 {
			t.Errorf("%v, begun %d times", err, begun.Load())
		}
		time.Sleep(time.Hour)
		if got, err := Do(t.Context(), r, other, long(begun, 8, nil)); got != 8 || err != nil || begun.Load() != 2 {
			t.Errorf("%d, %v, begun %d times", got, err, begun.Load())
		}
	})
}

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begun := NewRunner(), new(atomic.Int32)
		_, _ = brief(r, backgroundCopying, long(begun, 7, nil))
		since := time.Now()
		r.End(time.Minute)
		if took := time.Since(since); took > 0 {
			t.Errorf("it took %s to end", took)
		}
		if _, err := brief(r, Task{Key: "other"}, long(begun, 7, nil)); !fault.Unready.Is(err) || begun.Load() != 1 {
			t.Errorf("after the end: %v, begun %d times", err, begun.Load())
		}
	})
}

func TestABugIsAnError(t *testing.T) {
	r := NewRunner()
	defer r.End(time.Second)
	_, err := Do(t.Context(), r, backgroundCopying, func(context.Context) (int, error) { panic("boom") })
	if !fault.Internal.Is(err) || !strings.Contains(err.Error(), "boom") {
		t.Errorf("%v, want the bug", err)
	}
}
