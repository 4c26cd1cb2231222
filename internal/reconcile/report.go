package reconcile

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

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
	Emit(l.Events, finding.Reason, about.Object, eventType(info.Severity), info.Event, finding.Text())
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
