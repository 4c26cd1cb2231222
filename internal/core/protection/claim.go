package protection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

const (
	// LookEvery is how long memory is believed when it says that a deleted claim is in use. The
	// watch tells of every pod that goes; this is for one that it did not tell of (8.28).
	LookEvery = 10 * time.Minute
	// AskAgain is how long to wait for an answer of the API server, or for the pods that it told of
	// to come through the watch.
	AskAgain = 30 * time.Second
)

// Claim is the world around one claim.
type Claim struct {
	Object  *corev1.PersistentVolumeClaim // nil: it does not exist
	Removed bool                          // this process removed the finalizer, which a stale cache may still show
	// Users are the pods in memory that use it. When there is an answer, only those that are newer
	// than it.
	Users []string
	// Answer of the API server since the last decision; nil for none.
	Answer *Answer
	// Asked is when it was last asked; zero for never.
	Asked time.Time
}

// Answer says which pods used a claim at a resourceVersion of a moment ago.
type Answer struct {
	Users   []string
	Version string
}

// DecideClaim says what to do for a claim. The finalizer comes off only after the API server was
// asked: memory may not have a pod yet that was given a node a moment ago, and then a running pod
// would lose its data (8.30).
func DecideClaim(s Claim, now time.Time) Verdict {
	if s.Object == nil {
		return idle(verdict.ClaimGone, "the claim does not exist any more")
	}
	switch stateOf(s.Object, names.FinalizerPVCProtection) {
	case bare:
		return act(AddFinalizer{}, verdict.ClaimProtected, "the claim got the finalizer "+names.FinalizerPVCProtection)
	case protected:
		return idle(verdict.ClaimProtected, "the claim is protected")
	case let:
		return heldByOthers(s.Object, verdict.ClaimUnprotected, verdict.ClaimBlockedByFinalizers, "claim", now)
	case going:
		if s.Removed {
			return removed(verdict.ClaimUnprotected, "claim")
		}
	}
	users := s.users()
	switch {
	case len(users) > 0 && (s.Answer != nil || !due(s, now)):
		return held(s, users, now)
	case s.Answer == nil:
		asking := finding(verdict.ClaimConfirming, "the API server is asked which pods use the claim")
		return do{Finding: asking, Actions: []Action{Ask{}}, Then: wait{Finding: asking, Until: now.Add(AskAgain)}}
	}
	return act(DropFinalizer{}, verdict.ClaimUnprotected, "no pod with a node uses the claim")
}

func (s Claim) users() []string {
	all := slices.Clone(s.Users)
	if s.Answer != nil {
		all = append(all, s.Answer.Users...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// due reports whether memory has said for long enough that the claim is in use.
func due(s Claim, now time.Time) bool {
	return now.Sub(s.since()) >= LookEvery
}

// since is from when on memory is believed.
func (s Claim) since() time.Time {
	if deleted := s.Object.DeletionTimestamp.Time; deleted.After(s.Asked) {
		return deleted
	}
	return s.Asked
}

// held waits for the pods to go; each that goes wakes us up. The people are told when it takes long
// (8.29).
func held(s Claim, users []string, now time.Time) Verdict {
	reason, until := verdict.ClaimUsed, s.since().Add(LookEvery)
	tell := s.Object.DeletionTimestamp.Add(TellAfter)
	switch {
	case s.Answer != nil: // memory may never have seen those pods, and then nothing would wake us up
		until = now.Add(AskAgain)
	case now.Before(tell):
		until = tell
	}
	if !now.Before(tell) {
		reason = verdict.ClaimStillUsed
	}
	return wait{
		Finding: finding(reason, "the claim is being deleted and goes when no pod uses it any more; in use by "+list(users)),
		Until:   until,
	}
}

// mostNamed bounds a message that names users.
const mostNamed = 5

func list(users []string) string {
	if more := len(users) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(users[:mostNamed], ", "), more)
	}
	return strings.Join(users, ", ")
}
