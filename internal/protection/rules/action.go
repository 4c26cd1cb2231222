package protection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the result of a decision.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	do      = verdict.Do[Action]
)

// Action is one thing to do with the object that the decision is about. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// AddFinalizer adds the protecting finalizer to the object with this uid, and changes nothing else.
	AddFinalizer struct{}
	// DropFinalizer removes it.
	DropFinalizer struct{ IfUnchanged bool } // with a resourceVersion precondition
	// Ask has the pods of the claim's namespace read from the API server, since the cache may be stale.
	Ask struct{}
	// SetUnused writes the condition Unused into the claim's status, and leaves other conditions
	// alone.
	SetUnused struct {
		Condition corev1.PersistentVolumeClaimCondition // without a time
	}
)

func (AddFinalizer) action()  {}
func (DropFinalizer) action() {}
func (Ask) action()           {}
func (SetUnused) action()     {}

// state is the state of an object and its protecting finalizer.
type state int

const (
	bare      state = iota // alive, without the finalizer
	protected              // alive, with it
	going                  // being deleted, held by it
	let                    // being deleted, without it
)

func stateOf(o metav1.Object, finalizer string) state {
	has := slices.Contains(o.GetFinalizers(), finalizer)
	switch deleting := o.GetDeletionTimestamp() != nil; {
	case deleting && has:
		return going
	case deleting:
		return let
	case has:
		return protected
	}
	return bare
}

func finding(reason verdict.Reason, message string) verdict.Finding {
	return verdict.Because(reason, "%s", message)
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: finding(reason, message)}
}

// act returns a verdict with one action, after which there is nothing left to do.
func act(action Action, reason verdict.Reason, message string) Verdict {
	then := idle(reason, message)
	return do{Finding: then.Because(), Actions: []Action{action}, Then: then}
}

// actLater is act for an action that no user and no component waits for.
func actLater(action Action, reason verdict.Reason, message string) Verdict {
	then := idle(reason, message)
	return do{Finding: then.Because(), Actions: []Action{action}, Then: then, Deferrable: true}
}

// Rests reports whether there is nothing to do for an object and nothing to report, whatever uses it.
// It is the fast path for nearly all objects.
func Rests(o metav1.Object, finalizer string) bool {
	s := stateOf(o, finalizer)
	return s == protected || s == let && len(o.GetFinalizers()) == 0
}
