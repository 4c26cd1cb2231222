package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/telemetry/tracing"
	"github.com/purser-csi/purser/internal/verdict"
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

// Reader is a [Task] whose decisions may be [verdict.Read].
type Reader[S any] interface {
	// Read returns the snapshot with the objects that a decision asked for. Like Gather it judges nothing
	// and has no effects.
	Read(ctx context.Context, s S, refs []verdict.Ref) (S, error)
}

// About is what the loop needs of a snapshot for logs and events.
type About struct {
	Object runtime.Object // that events are about; nil for none
	// Users are what users see of an object that they cannot see themselves, or of which the events are
	// not the loop's: a long wait without an event is said on them. Nil for Object.
	Users  []runtime.Object
	Log    []any         // keys and values
	Inputs func() string // digest, worked out only for what failed; see [Retry]; nil for none
	// Created is the creation time of the object that the actions change; zero for that of Object.
	Created time.Time
}

// users are the objects on which a long wait is said.
func (a About) users() []runtime.Object {
	if a.Users == nil && a.Object != nil {
		return []runtime.Object{a.Object}
	}
	return a.Users
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
	Backlog *Backlog               // has deferrable actions wait; nil for no wait

	Repeats  int           // how many runs in a row may do the same before the next one waits; 0 for 5
	SayAfter time.Duration // how long a wait may last before an event says it; 0 for a minute
	Watch    func(Run)     // is called after each run; nil for nothing
	// Tracing makes a span of each decision that has an effect; nil for none.
	Tracing *tracing.Tracing
}

// Run is what a run of a controller came to, for an observer.
type Run struct {
	Controller string
	Key        any
	Began      time.Time
	Ended      time.Time
	Reason     verdict.Reason // of the last verdict
	// Acted is the reason of the first verdict if it had actions, empty if it had none or rested.
	Acted verdict.Reason
	Waits bool             // the key waits, or is attempted again later
	Users []runtime.Object // that the run is about, as users see them
}

// Config is what a loop needs.
type Config[K comparable, S, A any] struct {
	Settings
	Name    string // of the controller, in logs and metrics
	Task    Task[K, S, A]
	Retries *Retries[K]
	Bound   time.Duration // of one run, when the process is asked to end meanwhile
	// LastingReason is the reason that replaces WriteFailed when the failures go on, with an event; empty for
	// never.
	LastingReason verdict.Reason
	Finally       func(K) // called at the end of each run; nil for nothing
	Rests         func(K) // called in place of the actions of a key that is left alone for a while; nil for nothing
	// Polls says that to do the same again and again is what the controller is for. It limits the rate
	// itself.
	Polls bool
	// Observe is called with the outcome and duration of each run; may be nil.
	Observe func(key K, s S, end verdict.Verdict[A], took time.Duration)
}

// Loop implements reconcile.TypedReconciler.
type Loop[K comparable, S, A any] struct {
	Config[K, S, A]
	began    time.Time // when the process started, as far as deferrable actions are concerned
	repeats  repeats[K]
	silences silences[K]
	deferred deferred[K]
	waits    waits[K]
}

// New returns a loop.
func New[K comparable, S, A any](cfg Config[K, S, A]) *Loop[K, S, A] {
	l := &Loop[K, S, A]{Config: cfg}
	if cfg.Clock != nil {
		l.began = cfg.Clock.Now()
	}
	return l
}

// maxDecisions bounds the verdicts of one run: a longer chain is a bug in the rules.
const maxDecisions = 10

// Reconcile runs one key. It never returns an error: a failure is a verdict like any other. A run
// that has begun is finished even when ctx ends meanwhile: a call to the driver that is cut off
// leaves an unknown outcome.
func (l *Loop[K, S, A]) Reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	if ctx.Err() != nil {
		return reconcile.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Bound)
	defer cancel()
	if l.Finally != nil {
		defer l.Finally(key)
	}
	began := l.Clock.Now()
	snapshot, err := l.Task.Gather(ctx, key)
	var first verdict.Verdict[A]
	if err == nil {
		snapshot, first, err = l.decide(ctx, snapshot)
	}
	about := l.Task.About(key, snapshot)
	if err != nil {
		first = l.unreadable(err)
	}
	var end verdict.Verdict[A]
	var acted verdict.Reason
	rests := l.defers(key, about, first)
	if rests == 0 {
		end, acted, rests = l.follow(ctx, key, snapshot, about, first)
	}
	if rests > 0 {
		if l.Rests != nil {
			l.Rests(key)
		}
		return reconcile.Result{RequeueAfter: rests}, nil
	}
	if l.Observe != nil {
		l.Observe(key, snapshot, end, l.Clock.Since(began))
	}
	result := l.finish(ctx, key, about, end)
	if l.Watch != nil {
		run := runOf(l.Name, key, about, end, acted)
		run.Began, run.Ended = began, l.Clock.Now()
		l.Watch(run)
	}
	return result, nil
}

func runOf[K comparable, A any](
	controller string, key K, about About, end verdict.Verdict[A], acted verdict.Reason,
) Run {
	_, waits := end.(verdict.Wait[A])
	_, refused := end.(verdict.Refuse[A])
	return Run{
		Controller: controller, Key: key, Reason: end.Because().Reason, Acted: acted,
		Waits: waits || refused, Users: about.users(),
	}
}

// decide returns the verdict about a snapshot, and the snapshot with what was read for it.
func (l *Loop[K, S, A]) decide(ctx context.Context, s S) (S, verdict.Verdict[A], error) {
	now := l.Clock.Now()
	return verdict.Settle(
		s, func(s S) verdict.Verdict[A] { return l.Task.Decide(s, now) },
		func(s S, refs []verdict.Ref) (S, error) { return l.read(ctx, s, refs) },
	)
}

func (l *Loop[K, S, A]) read(ctx context.Context, s S, refs []verdict.Ref) (S, error) {
	reader, ok := l.Task.(Reader[S])
	if !ok {
		return s, fmt.Errorf(
			"the controller %s cannot read %s; this is a bug of Purser, please report it", l.Name, refs[0],
		)
	}
	return reader.Read(ctx, s, refs)
}

// follow applies the first verdict and those that come of it, until there is no action left. A key
// in a hot loop rests instead. acted is the reason of the first verdict if it has actions.
func (l *Loop[K, S, A]) follow(
	ctx context.Context, key K, snapshot S, about About, v verdict.Verdict[A],
) (end verdict.Verdict[A], acted verdict.Reason, rests time.Duration) {
	todo, acts := v.(verdict.Do[A])
	if acts && !l.Polls {
		if rests := l.rest(key, about, todo); rests > 0 {
			return nil, "", rests
		}
		defer func() { l.notice(ctx, key, about, todo.Finding, end) }()
	}
	if acts {
		acted = todo.Reason
		var traced func(verdict.Verdict[A])
		ctx, traced = l.trace(ctx, key, about, acted)
		defer func() { traced(end) }()
	}
	for range maxDecisions {
		if asks, ok := v.(verdict.Read[A]); ok {
			snapshot, v = l.resume(ctx, snapshot, asks)
		}
		todo, ok := v.(verdict.Do[A])
		if !ok {
			return v, acted, 0
		}
		if todo.Then == nil || todo.Then.Because() != todo.Because() { // else it is reported once, when it is done
			l.report(ctx, key, about, v, 0)
		}
		v = l.perform(ctx, snapshot, todo)
	}
	return verdict.Refuse[A]{
		Retry: verdict.RetrySlowly,
		Finding: verdict.Because(
			verdict.DecisionsEndless,
			"%d decisions in a row did not come to an end, the last for the reason %s: %s; this is a bug of Purser, "+
				"please report it",
			maxDecisions, v.Because().Reason, v.Because().Text(),
		),
	}, acted, 0
}

// resume reads what the outcome of an action asks for and decides again.
func (l *Loop[K, S, A]) resume(ctx context.Context, s S, asks verdict.Read[A]) (S, verdict.Verdict[A]) {
	asked := false
	s, v, err := verdict.Settle(
		s, func(s S) verdict.Verdict[A] {
			if !asked {
				asked = true
				return asks
			}
			return l.Task.Decide(s, l.Clock.Now())
		}, func(s S, refs []verdict.Ref) (S, error) { return l.read(ctx, s, refs) },
	)
	if err != nil {
		v = l.unreadable(err)
	}
	return s, v
}

// rest returns how long a key rests that would do once more what its last runs did in vain.
func (l *Loop[K, S, A]) rest(key K, about About, todo verdict.Do[A]) time.Duration {
	now := l.Clock.Now()
	rests := l.repeats.begin(key, kindsOf(todo.Reason, todo.Actions), func() uint64 {
		return digestOf(todo.Finding, todo.Actions, about.Object, about.Users, about.inputs())
	}, now)
	if rests.IsZero() {
		return 0
	}
	return rests.Sub(now)
}

// notice delays a key whose runs repeat each other, and says so.
func (l *Loop[K, S, A]) notice(ctx context.Context, key K, about About, did verdict.Finding, end verdict.Verdict[A]) {
	var due time.Time
	failed := false
	switch end := end.(type) {
	case verdict.Wait[A]:
		due = end.Until
	case verdict.Refuse[A]:
		due, failed = l.Clock.Now().Add(l.delay(key, end.Retry)), true
	}
	t := l.repeats.end(key, failed, due, cmp.Or(l.Repeats, fewRepeats), l.Backoff, l.Clock.Now())
	if t.runs == 0 {
		return
	}
	same := "did the same"
	if t.cycle > 1 {
		same = "did the same things in turns"
	}
	finding := verdict.Finding{
		Reason: verdict.HotLoopThrottled,
		Message: fmt.Sprintf("%d runs in a row of the controller %s %s and changed nothing (%s: %s), "+
			"so the next one waits, up to %s", t.runs, l.Name, same, did.Reason, did.Text(), l.Backoff.Most),
		Fix: verdict.Advice(verdict.HotLoopThrottled),
	}
	l.Decided.WithLabelValues(l.Name, string(finding.Reason)).Inc()
	l.log(ctx, key, about, verdict.Refuse[A]{Finding: finding}, t.rest)
	if t.tell {
		for _, user := range about.users() {
			l.Events.Event(user, corev1.EventTypeWarning, string(finding.Reason), finding.Text())
		}
	}
}

func (l *Loop[K, S, A]) unreadable(err error) verdict.Verdict[A] {
	return verdict.Refuse[A]{Finding: verdict.Because(verdict.WriteFailed, "%s", err.Error())}
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
	l.noteWait(key, end)
	if listen := l.listen(key, about, end); listen > 0 {
		if _, waits := end.(verdict.Wait[A]); waits && (after == 0 || listen < after) {
			// a refusal is attempted again anyway
			after = listen
		}
	}
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
	if l.LastingReason != "" && l.Retries.Get(key).unwritten > briefly {
		v.Reason = l.LastingReason
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

// log computes nothing for a line that is not written: most decisions need no action. A refusal that is
// the same as before is logged once: users decide how many objects are refused, and for how long.
func (l *Loop[K, S, A]) log(ctx context.Context, key K, about About, v verdict.Verdict[A], retryIn time.Duration) {
	finding, log := v.Because(), logr.FromContextOrDiscard(ctx)
	level := verbosity(v)
	if _, refused := v.(verdict.Refuse[A]); refused && !l.Retries.isUnlogged(key, finding.Text()) {
		level = verbosityUnchanged
	}
	if log = log.V(level); !log.Enabled() {
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

// verbosityUnchanged is the log level of what changes nothing.
const verbosityUnchanged = 4

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
	return verbosityUnchanged
}
