package verdict

import "time"

// Verdict is the answer of a decision whose actions are of type A. It is exactly one of [Nothing],
// [Wait], [Refuse] and [Do]; the interface is sealed so that a switch over it can be complete.
//
//sumtype:decl
type Verdict[A any] interface {
	// Because says why: the one source of the log line, the metric label and the event.
	Because() Finding
	sealed(A)
}

// Finding is a reason together with what a person should read about this one case.
type Finding struct {
	Reason  Reason
	Message string // one sentence, without secret values; goes into the event unchanged
	Fix     string // what would change the verdict; empty when nothing needs to be done
	Code    string // gRPC code of the driver's answer that this is about; empty when it was not asked
}

// Text is the message followed by the fix, as events and logs show it.
func (f Finding) Text() string {
	if f.Fix == "" {
		return f.Message
	}
	return f.Message + ". " + f.Fix
}

// Nothing says that the object is as it should be, or is not ours.
type Nothing[A any] struct{ Finding }

// Wait says that another component acts next. Until is when to look again at the latest; the zero
// time means that a change of the object, or of one that it refers to, will wake us up.
type Wait[A any] struct {
	Finding
	Until time.Time
}

// Refuse says that the wish cannot be met as things are.
type Refuse[A any] struct {
	Finding
	Retry Retry
	// Look is after how long to look at the inputs again, when some of them change without waking
	// us up (H-43). The attempt itself is not due any sooner for that. Zero is not to look.
	Look time.Duration
}

// Do lists actions in the order in which they must happen. An action that ends unlike expected, or
// whose answer must be looked at first, ends the list, and a further decision says what is next.
// When all of them are done, Then is the verdict.
type Do[A any] struct {
	Finding
	Actions []A
	Then    Verdict[A]
}

// Retry says how a refused wish is taken up again.
type Retry int

const (
	// RetryWithBackoff tries again after a delay that doubles.
	RetryWithBackoff Retry = iota
	// RetrySlowly tries again after the longest delay, unless an input of the decision changes
	// first (C-42, H-43).
	RetrySlowly
)

// DoFirst returns the actions followed by the verdict then, or then alone if there are none.
func DoFirst[A any](because Finding, actions []A, then Verdict[A]) Verdict[A] {
	if len(actions) == 0 {
		return then
	}
	return Do[A]{Finding: because, Actions: actions, Then: then}
}

// Because implements Verdict for those that embed a finding.
func (f Finding) Because() Finding { return f }

func (Nothing[A]) sealed(A) {}
func (Wait[A]) sealed(A)    {}
func (Refuse[A]) sealed(A)  {}
func (Do[A]) sealed(A)      {}

// Coded returns the verdict with a gRPC code in its findings.
func Coded[A any](v Verdict[A], code string) Verdict[A] {
	switch v := v.(type) {
	case Nothing[A]:
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
