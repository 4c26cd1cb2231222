package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/purser-csi/purser/internal/verdict"
)

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
