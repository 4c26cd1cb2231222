package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/internal/telemetry/tracing"
	"github.com/purser-csi/purser/internal/verdict"
)

// trace begins the span of a decision that has an effect. ended must be called with the last verdict of the
// run, nil for none.
func (l *Loop[K, S, A]) trace(
	ctx context.Context, key K, about About, reason verdict.Reason,
) (_ context.Context, ended func(end verdict.Verdict[A])) {
	if l.Tracing == nil {
		return ctx, func(verdict.Verdict[A]) {}
	}
	d := tracing.Decision{
		Controller: l.Name, Reason: string(reason), At: l.Clock.Now(), Fields: about.Log, Wait: l.waits.of(key),
	}
	for _, user := range slices.Concat([]runtime.Object{about.Object}, about.Users) {
		if o, ok := user.(metav1.Object); ok {
			d.Objects = append(d.Objects, o)
		}
	}
	ctx, finish := l.Tracing.Begin(ctx, d)
	return ctx, func(end verdict.Verdict[A]) {
		outcome := tracing.Outcome{At: l.Clock.Now()}
		if end != nil {
			outcome.Reason = string(end.Because().Reason)
			_, outcome.Failed = end.(verdict.Refuse[A])
		}
		finish(outcome)
	}
}

// noteWait notes since when a key waits, for the span of the decision that ends the wait.
func (l *Loop[K, S, A]) noteWait(key K, end verdict.Verdict[A]) {
	if l.Tracing == nil {
		return
	}
	switch end.(type) {
	case verdict.Wait[A], verdict.Refuse[A]:
		if reason := end.Because().Reason; !verdict.IsBackoff(reason) { // else that of the attempt before goes on
			l.waits.begin(key, string(reason), l.Clock.Now())
		}
	default:
		l.waits.end(key)
	}
}

// waits has the reason for which each key waits, and since when. It is safe for concurrent use.
type waits[K comparable] struct {
	mu sync.Mutex
	m  map[K]tracing.Wait
}

// begin notes a wait, unless the key waits for the reason already.
func (w *waits[K]) begin(key K, reason string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m == nil {
		w.m = map[K]tracing.Wait{}
	}
	if w.m[key].Reason != reason {
		w.m[key] = tracing.Wait{Reason: reason, Since: now}
	}
}

func (w *waits[K]) end(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.m, key)
}

// of returns the wait of a key; the zero value if it does not wait.
func (w *waits[K]) of(key K) tracing.Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m[key]
}
