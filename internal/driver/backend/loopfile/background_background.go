package loopfile

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// keptFor is how long an error waits for its caller. Later it may no longer be
// true.
const keptFor = 10 * time.Minute

// Task identifies the work.
type Task struct {
	// Key names what the work changes: one at a time with the same one.
	Key string
	// Doing is what errors say of it.
	Doing string
	// Request has everything that the result depends on. A caller with another Request does not get
	// the result.
	Request string
}

// Runner runs tasks.
type Runner struct {
	all sync.WaitGroup

	mu    sync.Mutex
	byKey map[string]*running
	ended bool
}

type running struct {
	task    Task
	since   time.Time
	waiting int
	cancel  context.CancelFunc
	done    chan struct{}
	// The fields below are set when done is closed.
	value any
	err   error
	until time.Time
}

// NewRunner makes one. Its owner calls End.
func NewRunner() *Runner { return &Runner{byKey: map[string]*running{}} }

// Do runs some work, or waits for the same work that an earlier caller began. When the caller's
// context ends, Do returns a fault.Busy error and the work goes on.
func Do[T any](ctx context.Context, r *Runner, e Task, work func(context.Context) (T, error)) (T, error) {
	var none T
	w, err := r.join(ctx, e, func(ctx context.Context) (any, error) { return work(ctx) })
	if err != nil {
		return none, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		select {
		case <-w.done: // just in time
		default:
			r.leave(w)
			return none, w.busy(e)
		}
	}
	r.take(w)
	if w.err != nil {
		return none, w.err
	}
	return w.value.(T), nil
}

// Running says with a fault.Busy error that there is work with this key.
func (r *Runner) Running(e Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.byKey[e.Key]; w != nil && !w.isDone() {
		return w.busy(e)
	}
	return nil
}

// End tells all work to end, and waits for it for a while.
func (r *Runner) End(bound time.Duration) {
	r.mu.Lock()
	r.ended = true
	for _, w := range r.byKey {
		w.cancel()
	}
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		r.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(bound):
	}
}

func (r *Runner) join(ctx context.Context, e Task, work func(context.Context) (any, error)) (*running, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(time.Now())
	w := r.byKey[e.Key]
	if w != nil && w.task.Request != e.Request {
		if !w.isDone() {
			return nil, w.busy(e)
		}
		w = nil // no caller asks for that result any more
	}
	if w == nil {
		if r.ended {
			return nil, fault.Unready.Errorf("the driver is stopping; try again")
		}
		w = r.begin(ctx, e, work)
	}
	w.waiting++
	return w, nil
}

func (r *Runner) begin(ctx context.Context, e Task, work func(context.Context) (any, error)) *running {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &running{task: e, since: time.Now(), cancel: cancel, done: make(chan struct{})}
	r.byKey[e.Key] = w
	r.all.Go(func() {
		defer cancel()
		value, err := safely(ctx, work)
		r.mu.Lock()
		defer r.mu.Unlock()
		w.value, w.err, w.until = value, err, time.Now().Add(keptFor)
		close(w.done)
		if err == nil && w.waiting == 0 {
			r.drop(w)
		}
	})
	return w
}

// safely turns a bug into an error: no interceptor would here, and the program
// would end for all.
func safely(ctx context.Context, work func(context.Context) (any, error)) (value any, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fault.Internal.Errorf("bug in the driver: %v\n%s", bug, debug.Stack())
		}
	}()
	return work(ctx)
}

func (r *Runner) leave(w *running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.waiting--
	if w.isDone() && w.err == nil && w.waiting == 0 {
		r.drop(w)
	}
}

// take returns the result. Callers that wait for it now get it as well, later callers do not.
func (r *Runner) take(w *running) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.waiting--
	r.drop(w)
}

func (r *Runner) drop(w *running) {
	if r.byKey[w.task.Key] == w {
		delete(r.byKey, w.task.Key)
	}
}

func (r *Runner) forget(now time.Time) {
	for _, w := range r.byKey {
		if w.isDone() && w.waiting == 0 && now.After(w.until) {
			r.drop(w)
		}
	}
}

func (w *running) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *running) busy(e Task) error {
	return fault.Busy.Errorf("to %s takes long: it has been running for %s and goes on; to %s try again",
		w.task.Doing, time.Since(w.since).Round(time.Millisecond), e.Doing)
}
