package verdict

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is the result of a decision with actions of type A. It is exactly one of [Nothing],
// [Read], [Wait], [Refuse] and [Do]. The interface is sealed, so that a linter can check that a
// switch is complete.
//
//sumtype:decl
type Verdict[A any] interface {
	// Because returns the finding, from which the log line, the metric label and the event are
	// made.
	Because() Finding
	sealed(A)
}

// Finding is a reason with a message about this case.
type Finding struct {
	Reason  Reason
	Message string // one sentence, without secret values; the event has it unchanged
	Fix     string // what a user can do to change the verdict; empty for nothing
	Code    string // gRPC code of the driver's response; empty if the driver was not called
}

// Because returns a finding with a formatted message.
func Because(reason Reason, format string, args ...any) Finding {
	return Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Text returns the message followed by the fix, for events and logs.
func (f Finding) Text() string {
	if f.Fix == "" {
		return f.Message
	}
	if strings.HasSuffix(f.Message, ".") || strings.HasSuffix(f.Message, "?") || strings.HasSuffix(f.Message, "!") {
		return f.Message + " " + f.Fix // it may quote a driver
	}
	return f.Message + ". " + f.Fix
}

// Nothing means that the object needs no change, or is not this controller's.
type Nothing[A any] struct{ Finding }

// Wait means that another component acts next. The key is requeued at Until. If Until is zero, only
// an event about the object, or about one that it refers to, enqueues it.
type Wait[A any] struct {
	Finding
	Until time.Time
}

// Refuse means that the request cannot be met now.
type Refuse[A any] struct {
	Finding
	Retry Retry
	// Look is the time after which the inputs are read and decided on again, for inputs whose
	// change enqueues no key (H-43). It does not shorten the backoff of the failed attempt. Zero
	// means never.
	Look time.Duration
}

// Do lists actions, to be done in this order. If Apply returns another verdict for an action, that
// verdict takes the place of the rest of the list. When all actions are done, Then is the verdict.
type Do[A any] struct {
	Finding
	Actions []A
	Then    Verdict[A]
	// Deferrable says that no user and no component waits for the actions. For an object that is
	// older than the process they may be done minutes later, so that a start does not write all
	// objects at once.
	Deferrable bool
}

// Retry is the delay policy after a [Refuse].
type Retry int

const (
	// RetryWithBackoff retries after a delay that doubles.
	RetryWithBackoff Retry = iota
	// RetrySlowly retries after the longest delay, or earlier if an input of the decision changes
	// (C-42, H-43).
	RetrySlowly
)

// DoFirst returns the actions followed by the verdict then, or then alone if there are none.
func DoFirst[A any](because Finding, actions []A, then Verdict[A]) Verdict[A] {
	if len(actions) == 0 {
		return then
	}
	return Do[A]{Finding: because, Actions: actions, Then: then}
}

// Because implements Verdict for all types that embed Finding.
func (f Finding) Because() Finding { return f }

func (Nothing[A]) sealed(A) {}
func (Wait[A]) sealed(A)    {}
func (Refuse[A]) sealed(A)  {}
func (Do[A]) sealed(A)      {}

// Coded returns the verdict with the gRPC code in all its findings.
func Coded[A any](v Verdict[A], code string) Verdict[A] {
	switch v := v.(type) {
	case Nothing[A]:
		v.Code = code
		return v
	case Read[A]:
		v.Code = code
		return v
	case Wait[A]:
		v.Code = code
		return v
	case Refuse[A]:
		v.Code = code
		return v
	case Do[A]:
		v.Code = code
		v.Then = Coded(v.Then, code)
		return v
	}
	return v
}
