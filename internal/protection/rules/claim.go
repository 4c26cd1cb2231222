package protection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

const (
	// LookEvery is how long the cache decides that a terminating claim is in use, before the pods are
	// read live. The watch delivers the end of each pod; this is for one that it missed (8.28).
	LookEvery = 10 * time.Minute
	// AskAgain is how long to wait for a response of the API server, or until the watch delivers the
	// pods in that response.
	AskAgain = 30 * time.Second
)

// Claim is the snapshot of one claim.
type Claim struct {
	Object *corev1.PersistentVolumeClaim // nil: it does not exist
	Pods   []corev1.Pod                  // cached ones with a node that name the claim, read after the answer
	// Answer is the API server's response since the last decision; nil for none.
	Answer *Answer
	// Asked is the time of the last live read; zero for never.
	Asked time.Time
	// Snapshots are the VolumeSnapshots that are being taken of a terminating claim, where this process
	// keeps their source in memory, and not by a finalizer of the snapshot-controller.
	Snapshots []string
}

// Answer has the pods that used a claim at a recent resourceVersion.
type Answer struct {
	Users   []string
	Version string
}

// DecideClaim returns the next step for a claim. The finalizer is removed only after a live read: a
// stale cache may lack a pod that was just scheduled, and that pod would lose its data (8.30).
func DecideClaim(s Claim, now time.Time) Verdict {
	if s.Object == nil {
		return idle(verdict.ClaimGone, "the claim does not exist any more")
	}
	switch stateOf(s.Object, names.FinalizerPVCProtection) {
	case bare:
		message := "the claim got the finalizer " + names.FinalizerPVCProtection
		if len(s.users()) == 0 { // its deletion would take no data from a pod
			return actLater(AddFinalizer{}, verdict.ClaimProtected, message)
		}
		return act(AddFinalizer{}, verdict.ClaimProtected, message)
	case protected:
		return idle(verdict.ClaimProtected, "the claim is protected")
	case let:
		return heldByOthers(s.Object, verdict.ClaimUnprotected, verdict.ClaimBlockedByFinalizers, "claim", now)
	case going:
	}
	users := s.users()
	switch {
	case len(s.Snapshots) > 0:
		return AwaitSnapshots(s, now)
	case len(users) > 0 && (s.Answer != nil || !due(s, now)):
		return held(s, users, now)
	case s.Answer == nil:
		asking := finding(verdict.ClaimConfirming, "the API server is asked which pods use the claim")
		return do{Finding: asking, Actions: []Action{Ask{}}, Then: wait{Finding: asking, Until: now.Add(AskAgain)}}
	}
	return act(DropFinalizer{}, verdict.ClaimUnprotected, "no pod with a node uses the claim")
}

// users returns the pods that use the claim, without repetition. A cached pod that is older than the
// answer and is not in it is gone.
func (s Claim) users() []string {
	var all []string
	var since string
	if s.Answer != nil {
		all, since = slices.Clone(s.Answer.Users), s.Answer.Version
	}
	for i := range s.Pods {
		if pod := &s.Pods[i]; Uses(pod, s.Object) && objects.IsNewer(pod.ResourceVersion, since) {
			all = append(all, pod.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// due reports whether it is time to read the users live again.
func due(s Claim, now time.Time) bool {
	return now.Sub(s.since()) >= LookEvery
}

// since returns when the cache began to decide: at the deletion or at the last live read.
func (s Claim) since() time.Time {
	if deleted := s.Object.DeletionTimestamp.Time; deleted.After(s.Asked) {
		return deleted
	}
	return s.Asked
}

// held waits until the pods are gone; the end of each enqueues the claim. It emits an event when that
// takes long (8.29).
func held(s Claim, users []string, now time.Time) Verdict {
	reason, until := verdict.ClaimUsed, s.since().Add(LookEvery)
	tell := s.Object.DeletionTimestamp.Add(TellAfter)
	switch {
	case s.Answer != nil: // the cache may never get those pods, and then no event enqueues the claim
		until = now.Add(AskAgain)
	case now.Before(tell):
		until = tell
	}
	if !now.Before(tell) {
		reason = verdict.ClaimStillUsed
	}
	return wait{
		Finding: finding(
			reason, "the claim is being deleted and goes when no pod uses it any more; in use by "+list(users),
		),
		Until: until,
	}
}

// AwaitSnapshots waits until no snapshot is being taken of the claim. The end of each enqueues the claim;
// one that another process began has no such event, so the claim is requeued.
func AwaitSnapshots(s Claim, now time.Time) Verdict {
	reason := verdict.ClaimUsed
	if !now.Before(s.Object.DeletionTimestamp.Add(TellAfter)) {
		reason = verdict.ClaimStillUsed
	}
	return wait{
		Finding: finding(reason, "the claim is being deleted and goes when no snapshot is being taken of it any more; "+
			"not ready yet: "+list(s.Snapshots)),
		Until: now.Add(AskAgain),
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
