package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/verdict"
)

type v = verdict.Verdict[string]

func finding(r verdict.Reason) verdict.Finding { return verdict.Finding{Reason: r, Message: string(r)} }

// script is a task whose answers are written down.
type script struct {
	gather  error
	decide  v
	answers map[string]v
	errs    map[string]error
	done    []string
}

func (s *script) Gather(context.Context, string) (int, error) { return 0, s.gather }
func (s *script) Decide(int, time.Time) v                     { return s.decide }
func (s *script) About(string, int) About {
	return About{Object: &corev1.PersistentVolume{}, Inputs: func() string { return "in" }}
}

func (s *script) Apply(_ context.Context, _ int, action string) (v, error) {
	s.done = append(s.done, action)
	return s.answers[action], s.errs[action]
}

type events []string

func (e *events) Event(_ runtime.Object, kind, reason, message string) {
	*e = append(*e, fmt.Sprintf("%s %s %s", kind, reason, message))
}

func newLoop(s *script) (*Loop[string, int, string], *events) {
	told := &events{}
	return New(Config[string, int, string]{
		Name: "test", Task: s, Retries: NewRetries[string](), Bound: time.Minute,
		Settings: Settings{
			Backoff: Backoff{First: time.Second, Most: 4 * time.Second}, Clock: clocktesting.NewFakeClock(time.Unix(100, 0)), Events: told,
			Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
		},
	}), told
}

func TestReconcile(t *testing.T) {
	finished := verdict.Nothing[string]{Finding: finding(verdict.VolumeProvisioned)}
	failed := verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}
	todo := func(then v, actions ...string) v {
		return verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: actions, Then: then}
	}
	for _, tc := range []struct {
		name   string
		script *script
		after  time.Duration
		done   []string
		events events
	}{
		{"nothing to do", &script{decide: verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}}, 0, nil, nil},
		{"wait for an event", &script{decide: verdict.Wait[string]{Finding: finding(verdict.WaitForConsumer)}}, 0, nil, nil},
		{"wait for a time", &script{decide: verdict.Wait[string]{Finding: finding(verdict.WaitForRetry), Until: time.Unix(103, 0)}}, 3 * time.Second, nil, nil},
		{"refuse", &script{decide: failed}, time.Second, nil, events{"Warning ProvisioningFailed CreateFailed"}},
		{
			"refuse slowly", &script{decide: verdict.Refuse[string]{Finding: finding(verdict.CreateInfeasible), Retry: verdict.RetrySlowly}},
			4 * time.Second, nil,
			events{"Warning ProvisioningFailed CreateInfeasible"},
		},
		{
			"do, in order", &script{decide: todo(finished, "a", "b")}, 0,
			[]string{"a", "b"},
			events{"Normal Provisioning Provisioning", "Normal ProvisioningSucceeded VolumeProvisioned"},
		},
		{
			"an answer ends the list and takes its place", &script{decide: todo(finished, "a", "b"), answers: map[string]v{"a": failed}},
			time.Second,
			[]string{"a"},
			events{"Normal Provisioning Provisioning", "Warning ProvisioningFailed CreateFailed"},
		},
		{
			"an answer may lead on", &script{decide: todo(nil, "a"), answers: map[string]v{"a": todo(finished, "b")}}, 0,
			[]string{"a", "b"},
			events{"Normal Provisioning Provisioning", "Normal ProvisioningSucceeded VolumeProvisioned"},
		},
		{
			"an error is retried", &script{decide: todo(finished, "a", "b"), errs: map[string]error{"a": errors.New("no")}}, time.Second,
			[]string{"a"},
			events{"Normal Provisioning Provisioning"},
		},
		{"an unreadable world is retried", &script{gather: errors.New("no")}, time.Second, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, told := newLoop(tc.script)
			result, err := l.Reconcile(t.Context(), "k")
			if err != nil || result.RequeueAfter != tc.after {
				t.Errorf("result = %v, %v; want after %s", result, err, tc.after)
			}
			if diff := cmp.Diff(tc.done, tc.script.done); diff != "" {
				t.Errorf("actions:\n%s", diff)
			}
			if diff := cmp.Diff(tc.events, *told, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("events:\n%s", diff)
			}
		})
	}
}

// If all actions of a verdict end with its own reason, the attempt has one event, one log line and
// one count.
func TestReconcileTellsOneReasonOnce(t *testing.T) {
	failed := verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}
	l, told := newLoop(&script{decide: verdict.Do[string]{Finding: failed.Finding, Actions: []string{"settle"}, Then: failed}})
	if _, err := l.Reconcile(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", "CreateFailed")); got != 1 || len(*told) != 1 {
		t.Errorf("counted %v, told %q; want one of each", got, *told)
	}
}

// C-3: the delay doubles up to the most, and starts again after a success.
func TestReconcileBacksOff(t *testing.T) {
	s := &script{decide: verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}}
	l, _ := newLoop(s)
	for _, want := range []time.Duration{1, 2, 4, 4} {
		if result, _ := l.Reconcile(t.Context(), "k"); result.RequeueAfter != want*time.Second {
			t.Errorf("after %s, want %s", result.RequeueAfter, want*time.Second)
		}
	}
	if got := l.Retries.Get("k"); got.Failed != 4 || got.Inputs != "in" || !got.NotBefore.Equal(time.Unix(104, 0)) {
		t.Errorf("remembered %+v", got)
	}
	s.decide = verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}
	if _, err := l.Reconcile(t.Context(), "k"); err != nil || l.Retries.Get("k").Failed != 0 {
		t.Error("a success is not forgotten")
	}
}

// C-25, C-61, C-62: an event about failing API requests is emitted only after several failures in a
// row.
func TestReconcileTellsWhatHoldsItUp(t *testing.T) {
	for _, heldUp := range []verdict.Reason{verdict.ProvisioningHeldUp, ""} {
		s := &script{gather: errors.New("leases are forbidden")}
		l, told := newLoop(s)
		l.LastingReason = heldUp
		run := func(n int) {
			for range n {
				if _, err := l.Reconcile(t.Context(), "k"); err != nil {
					t.Fatal(err)
				}
			}
		}
		run(briefly)
		s.gather, s.decide = nil, verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}
		run(1)
		s.gather = errors.New("leases are forbidden")
		run(briefly)
		if len(*told) > 0 {
			t.Errorf("told of a moment's trouble: %q", *told)
		}
		run(2)
		want := events{"Warning ProvisioningFailed leases are forbidden", "Warning ProvisioningFailed leases are forbidden"}
		if heldUp == "" {
			want = nil
		}
		if diff := cmp.Diff(want, *told, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q: %s", heldUp, diff)
		}
		if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", string(verdict.ProvisioningHeldUp))); got != float64(len(want)) {
			t.Errorf("counted %v", got)
		}
	}
}

// C-25: what the driver refuses for long says nothing of the API server, whose first failure after
// that is a moment's.
func TestReconcileHoldsUpIsOfTheAPIServer(t *testing.T) {
	refused := verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}
	s := &script{decide: refused}
	l, told := newLoop(s)
	l.LastingReason = verdict.ProvisioningHeldUp
	for range 2 * briefly {
		if _, err := l.Reconcile(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	*told, s.gather = nil, errors.New("etcd is slow")
	if _, err := l.Reconcile(t.Context(), "k"); err != nil || len(*told) > 0 {
		t.Errorf("told %q, %v", *told, err)
	}
}

// H-41: the event about progress is emitted once, however many attempts there are.
func TestReconcileTellsProgressOnce(t *testing.T) {
	failed := verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}
	l, told := newLoop(&script{decide: verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: []string{"a"}, Then: failed}})
	for range 3 {
		if _, err := l.Reconcile(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	progress := 0
	for _, e := range *told {
		if e == "Normal Provisioning Provisioning" {
			progress++
		}
	}
	if progress != 1 || len(*told) != 4 {
		t.Errorf("told %q", *told)
	}
	if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", "CreateFailed")); got != 3 {
		t.Errorf("counted %v decisions, want 3", got)
	}
}

// 8.29: the event about a wait is emitted again when its message changes, and repeatedly while the
// wait lasts, since events expire.
func TestReconcileTellsAgainWhatIsWaitedFor(t *testing.T) {
	s := &script{}
	l, told := newLoop(s)
	now := clocktesting.NewFakeClock(time.Unix(100, 0))
	l.Clock = now
	for _, step := range []struct {
		after time.Duration
		text  string
		want  int // events by then
	}{{0, "p1", 1}, {TellAgain - time.Second, "p1", 1}, {0, "p2", 2}, {TellAgain, "p2", 3}, {0, "p2", 3}} {
		now.Step(step.after)
		s.decide = verdict.Wait[string]{Finding: verdict.Finding{Reason: verdict.ClaimStillUsed, Message: step.text}}
		if _, err := l.Reconcile(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if len(*told) != step.want {
			t.Errorf("8.29 %+v: told %q", step, *told)
		}
	}
}

// A call that has begun is not cut off when the process is asked to end, but nothing new is begun.
func TestReconcileDrains(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{decide: verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}}
	cancel()
	l, _ := newLoop(s)
	if _, err := l.Reconcile(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", "ClaimBound")); got != 0 {
		t.Error("work was begun after the end")
	}
}

// A chain of decisions without an end is a bug of ours and has its own reason: the API server did
// nothing wrong.
func TestReconcileEndsAnEndlessChain(t *testing.T) {
	again := verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: []string{"a"}}
	s := &script{decide: again, answers: map[string]v{"a": again}}
	l, _ := newLoop(s)
	if result, _ := l.Reconcile(t.Context(), "k"); result.RequeueAfter == 0 || len(s.done) != maxDecisions {
		t.Errorf("after %s, %d actions", result.RequeueAfter, len(s.done))
	}
	if got := testutil.ToFloat64(l.Decided.WithLabelValues("test", string(verdict.DecisionsEndless))); got != 1 {
		t.Errorf("counted %v endless chains, want 1", got)
	}
}

// H-33: an observer sees how each run ended, once, and how long it took; which of the ends is a
// failure is for it to say.
func TestReconcileIsObserved(t *testing.T) {
	finished := verdict.Nothing[string]{Finding: finding(verdict.VolumeProvisioned)}
	s := &script{decide: verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: []string{"a"}, Then: finished}}
	l, _ := newLoop(s)
	var seen []verdict.Reason
	l.Observe = func(key string, _ int, end v, took time.Duration) {
		if key != "k" || took != 0 { // the clock of the test stands still
			t.Errorf("key %q, took %s", key, took)
		}
		seen = append(seen, end.Because().Reason)
	}
	for _, unread := range []error{nil, errors.New("no")} {
		s.gather = unread
		if _, err := l.Reconcile(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]verdict.Reason{verdict.VolumeProvisioned, verdict.WriteFailed}, seen); diff != "" {
		t.Error(diff)
	}
}

// A line about an answer of the driver names its code.
func TestReconcileLogsTheCode(t *testing.T) {
	refused := verdict.Coded[string](verdict.Refuse[string]{Finding: finding(verdict.CreateFailed)}, "ResourceExhausted")
	l, _ := newLoop(&script{decide: verdict.Do[string]{Finding: finding(verdict.Provisioning), Actions: []string{"a"}, Then: refused}})
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	if _, err := l.Reconcile(logr.NewContext(t.Context(), log), "k"); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || strings.Contains(lines[0], "code") || !strings.Contains(lines[1], `"code"="ResourceExhausted"`) || !strings.Contains(lines[1], `"attempt"=1`) {
		t.Errorf("logged %q", lines)
	}
}

// A refusal that stays the same is logged once, and again when it changes or after it was over.
func TestReconcileLogsAnUnchangedRefusalOnce(t *testing.T) {
	s := &script{}
	l, _ := newLoop(s)
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	for _, step := range []struct {
		decides v
		lines   int
	}{
		{verdict.Refuse[string]{Finding: finding(verdict.SourceNotReady)}, 1},
		{verdict.Refuse[string]{Finding: finding(verdict.SourceNotReady)}, 1},
		{verdict.Refuse[string]{Finding: finding(verdict.SourceMissing)}, 2},
		{verdict.Refuse[string]{Finding: finding(verdict.SourceMissing)}, 2},
		{verdict.Nothing[string]{Finding: finding(verdict.ClaimBound)}, 2},
		{verdict.Refuse[string]{Finding: finding(verdict.SourceMissing)}, 3},
	} {
		s.decide = step.decides
		if _, err := l.Reconcile(logr.NewContext(t.Context(), log), "k"); err != nil {
			t.Fatal(err)
		}
		if len(lines) != step.lines {
			t.Errorf("after %s: %d lines, want %d: %q", step.decides.Because().Reason, len(lines), step.lines, lines)
		}
	}
}

// asking is a task that decides only after it has read.
type asking struct {
	script
	read []string
	err  error
}

func (a *asking) Decide(s int, now time.Time) v {
	if s == 0 {
		return verdict.MustRead[string](verdict.Ref{What: "claim"})
	}
	return a.script.Decide(s, now)
}

func (a *asking) Read(_ context.Context, s int, refs []verdict.Ref) (int, error) {
	for _, ref := range refs {
		a.read = append(a.read, ref.String())
	}
	return s + 1, a.err
}

// The loop reads what a decision asks for, and what the outcome of an action asks for.
func TestReadsWhatIsAskedFor(t *testing.T) {
	task := &asking{script: script{
		decide: verdict.Do[string]{
			Finding: finding(verdict.Provisioning), Actions: []string{"a"},
			Then: verdict.Nothing[string]{Finding: finding(verdict.VolumeProvisioned)},
		},
	}}
	l, told := newLoop(&task.script)
	l.Task = task
	if result, err := l.Reconcile(t.Context(), "k"); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result = %v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"claim"}, task.read); diff != "" || len(task.done) != 1 {
		t.Errorf("read, and done %v:\n%s", task.done, diff)
	}
	if len(*told) != 2 {
		t.Errorf("events: %v", *told)
	}

	task.read, task.done = nil, nil
	task.answers = map[string]v{"a": verdict.MustRead[string](verdict.Ref{What: "volume"})}
	task.errs = nil
	l.Task = endsAfterVolume{task}
	if result, err := l.Reconcile(t.Context(), "k"); err != nil || result.RequeueAfter != 0 {
		t.Errorf("result = %v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"claim", "volume"}, task.read); diff != "" {
		t.Errorf("read:\n%s", diff)
	}
}

// endsAfterVolume has nothing left to do when two reads are done.
type endsAfterVolume struct{ *asking }

func (e endsAfterVolume) Decide(s int, now time.Time) v {
	if s == 2 {
		return verdict.Nothing[string]{Finding: finding(verdict.VolumeProvisioned)}
	}
	return e.asking.Decide(s, now)
}

// A read that fails is attempted again, and so is one that the task cannot make.
func TestUnreadable(t *testing.T) {
	task := &asking{err: errors.New("no")}
	l, _ := newLoop(&task.script)
	l.Task = task
	if result, err := l.Reconcile(t.Context(), "k"); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("result = %v, %v", result, err)
	}
	cannot := &script{decide: verdict.MustRead[string](verdict.Ref{What: "claim"})}
	l, _ = newLoop(cannot)
	if result, err := l.Reconcile(t.Context(), "k"); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("result = %v, %v", result, err)
	}
}
