package reconcile

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

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
