package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Task is one controller: K is its key, S its snapshot, A its actions.
type Task[K comparable, S, A any] interface {
	// Gather reads the objects around the key. It has no effects.
	Gather(ctx context.Context, key K) (S, error)
	// Decide is the pure decision, a function of package core.
	Decide(s S, now time.Time) verdict.Verdict[A]
	// Apply does one action. A verdict other than nil ends the list of actions and replaces the
	// verdict; an error means that a request to the API server failed.
	Apply(ctx context.Context, s S, action A) (verdict.Verdict[A], error)
	// About returns what logs and events need of a snapshot.
	About(key K, s S) About
}

// About is what the loop needs of a snapshot for logs and events.
type About struct {
	Object runtime.Object // that events are about; nil for none
	Log    []any          // keys and values
	Inputs func() string  // digest, worked out only for what failed; see [Retry]; nil for none
}

func (a About) inputs() string {
	if a.Inputs == nil {
		return ""
	}
	return a.Inputs()
}

// Recorder writes events.
type Recorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// Settings are the parts that all controllers of a process share.
type Settings struct {
	Workers int // keys of one controller that are worked on at once
	Backoff Backoff
	Clock   clock.Clock
	Events  Recorder
	Decided *prometheus.CounterVec // verdicts, by controller and reason
}

// Config is what a loop needs.
type Config[K comparable, S, A any] struct {
	Settings
	Name    string // of the controller, in logs and metrics
	Task    Task[K, S, A]
	Retries *Retries[K]
	Bound   time.Duration // of one run, when the process is asked to end meanwhile
	// HeldUp is the reason that replaces WriteFailed when the failures go on, with an event; empty for
	// never.
	HeldUp  verdict.Reason
	Finally func(K) // called at the end of each run; nil for nothing
	Rests   func(K) // called in place of a run, for a key that is left alone for a while; nil for nothing
	// Observe is called with the outcome and duration of each run; may be nil.
	Observe func(key K, s S, end verdict.Verdict[A], took time.Duration)
}

// Loop implements reconcile.TypedReconciler.
type Loop[K comparable, S, A any] struct {
	Config[K, S, A]
	churn churn[K]
}

// New returns a loop.
func New[K comparable, S, A any](cfg Config[K, S, A]) *Loop[K, S, A] {
	return &Loop[K, S, A]{Config: cfg}
}

// maxDecisions bounds the verdicts of one run: a longer chain is a bug in a decision of core.
const maxDecisions = 10

// Reconcile runs one key. It never returns an error: a failure is a verdict like any other. A run
// that has begun is finished even when ctx ends meanwhile: a call to the driver that is cut off
// leaves an unknown outcome.
func (l *Loop[K, S, A]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	if ctx.Err() != nil {
		return reconcile.Result{}, nil
	}
	if rest := l.churn.rest(key, l.Clock.Now()); rest > 0 {
		if l.Rests != nil {
			l.Rests(key)
		}
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Bound)
	defer cancel()
	if l.Finally != nil {
		defer l.Finally(key)
	}
	began := l.Clock.Now()
	snapshot, err := l.Task.Gather(ctx, key)
	about := l.Task.About(key, snapshot)
	end := l.follow(ctx, key, snapshot, about, err)
	if l.Observe != nil {
		l.Observe(key, snapshot, end, l.Clock.Since(began))
	}
	return l.finish(ctx, key, about, end), nil
}

// follow decides and applies until there is no action left. unread is the error of the gather.
func (l *Loop[K, S, A]) follow(ctx context.Context, key K, snapshot S, about About, unread error) verdict.Verdict[A] {
	if unread != nil {
		return l.unreadable(unread)
	}
	v := l.Task.Decide(snapshot, l.Clock.Now())
	for n := range maxDecisions {
		todo, ok := v.(verdict.Do[A])
		if !ok {
			l.notice(ctx, key, about, v, n > 0)
			return v
		}
		if todo.Then == nil || todo.Then.Because() != todo.Because() { // else it is reported once, when it is done
			l.report(ctx, key, about, v, 0)
		}
		v = l.perform(ctx, snapshot, todo)
	}
	return verdict.Refuse[A]{
		Retry: verdict.RetrySlowly,
		Finding: verdict.Finding{Reason: verdict.DecisionsEndless, Message: fmt.Sprintf(
			"%d decisions in a row did not come to an end, the last for the reason %s: %s; this is a bug of Purser, please report it",
			maxDecisions,
			v.Because().Reason,
			v.Because().Text(),
		)},
	}
}

// notice delays a key that is changed in run after run. A failed run is followed by a delay in any
// case.
func (l *Loop[K, S, A]) notice(ctx context.Context, key K, about About, end verdict.Verdict[A], acted bool) {
	if _, failed := end.(verdict.Refuse[A]); failed || !acted || !l.churn.acted(key, l.Clock.Now()) {
		return
	}
	l.report(
		ctx,
		key,
		about,
		verdict.Refuse[A]{Finding: verdict.Finding{Reason: verdict.HotLoopThrottled, Message: fmt.Sprintf(
			"changed %d times within %s, the last time with: %s", churnRuns, churnTime, end.Because().Text())}},
		churnTime,
	)
}

func (l *Loop[K, S, A]) unreadable(err error) verdict.Verdict[A] {
	return verdict.Refuse[A]{Finding: verdict.Finding{Reason: verdict.WriteFailed, Message: err.Error()}}
}

func (l *Loop[K, S, A]) perform(ctx context.Context, s S, todo verdict.Do[A]) verdict.Verdict[A] {
	for _, action := range todo.Actions {
		next, err := l.Task.Apply(ctx, s, action)
		if err != nil {
			return l.unreadable(err)
		}
		if next != nil {
			return next
		}
	}
	return todo.Then
}

// finish returns the requeue that the last verdict asks for.
func (l *Loop[K, S, A]) finish(ctx context.Context, key K, about About, v verdict.Verdict[A]) reconcile.Result {
	var after, look time.Duration
	end := v
	switch v := v.(type) {
	case verdict.Wait[A]:
		if !v.Until.IsZero() {
			after = max(v.Until.Sub(l.Clock.Now()), time.Millisecond)
		}
	case verdict.Refuse[A]:
		after = l.delay(key, v.Retry)
		l.Retries.failed(key, l.Clock.Now().Add(after), about.inputs(), v.Reason == verdict.WriteFailed)
		look = v.Look
		end = l.lasting(key, v)
	}
	l.report(ctx, key, about, end, after)
	if _, done := v.(verdict.Nothing[A]); done {
		l.Retries.forget(key)
	}
	if look > 0 { // only to look: the next attempt is not due any sooner
		after = min(after, look)
	}
	return reconcile.Result{RequeueAfter: after}
}

// briefly is the number of failed attempts in a row before the first event: half a minute with the
// default backoff.
const briefly = 5

// lasting adds an event when requests to the API server keep failing, for example for want of a
// permission, or when the journal is full.
func (l *Loop[K, S, A]) lasting(key K, v verdict.Refuse[A]) verdict.Verdict[A] {
	if l.HeldUp != "" && l.Retries.Get(key).unwritten > briefly {
		v.Reason = l.HeldUp
	}
	return v
}

func (l *Loop[K, S, A]) delay(key K, retry verdict.Retry) time.Duration {
	if retry == verdict.RetrySlowly {
		return l.Backoff.Most
	}
	return l.Backoff.Delay(l.Retries.Get(key).Failed + 1)
}

// report is the only place that logs and counts a decision and emits its event.
func (l *Loop[K, S, A]) report(ctx context.Context, key K, about About, v verdict.Verdict[A], retryIn time.Duration) {
	finding := v.Because()
	l.Decided.WithLabelValues(l.Name, string(finding.Reason)).Inc()
	l.log(ctx, key, about, v, retryIn)
	_, waits := v.(verdict.Wait[A])
	l.tell(key, about, finding, waits)
}

// log computes nothing for a line that is not written: most decisions need no action.
func (l *Loop[K, S, A]) log(ctx context.Context, key K, about About, v verdict.Verdict[A], retryIn time.Duration) {
	finding, log := v.Because(), logr.FromContextOrDiscard(ctx).V(verbosity(v))
	if !log.Enabled() {
		return
	}
	fields := append([]any{telemetry.KeyReason, finding.Reason}, about.Log...)
	if finding.Code != "" {
		fields = append(fields, telemetry.KeyCode, finding.Code)
	}
	if retryIn > 0 {
		fields = append(fields, telemetry.KeyAttempt, l.Retries.Get(key).Failed, telemetry.KeyRetry, retryIn.String())
	}
	log.Info(finding.Text(), fields...)
}

// tell emits the event. Progress is emitted once, a failure at each attempt, so that the count and
// time of its event are right (H-41). A wait is emitted when its reason changes, and again while it
// lasts.
func (l *Loop[K, S, A]) tell(key K, about About, finding verdict.Finding, waits bool) {
	info := verdict.Describe(finding.Reason)
	if info.Severity == verdict.Silent || about.Object == nil {
		return
	}
	if info.Severity == verdict.Normal &&
		!l.Retries.isNew(key, info.Event, finding.Text(), l.Clock.Now(), waits) {
		return
	}
	l.Events.Event(about.Object, eventType(info.Severity), info.Event, finding.Text())
}

// eventType returns the type of the core/v1 event.
func eventType(severity verdict.Severity) string {
	if severity == verdict.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// verbosity returns the log level: a verdict without an action is logged only at a higher one.
func verbosity[A any](v verdict.Verdict[A]) int {
	switch v.(type) {
	case verdict.Do[A], verdict.Refuse[A]:
		return 0
	case verdict.Nothing[A]:
		if verdict.Describe(v.Because().Reason).Severity != verdict.Silent {
			return 0
		}
	}
	return 4
}
