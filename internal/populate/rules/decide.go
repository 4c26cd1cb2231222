package populate

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

type (
	next    = verdict.Verdict[Action]
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
	finding = verdict.Finding
)

// Decide returns the next step of a claim. The order of the writes, and why a crash after any of them leaks
// nothing:
//
//  1. The finalizer on the user's claim. Until it is removed, the claim leads to the other objects (VP-H1).
//  2. The prime claim. Its label and annotation lead to the user's claim, should the finalizer be removed by
//     a user: it is deleted then, and its volume with it.
//  3. The pod, when the prime claim is bound.
//  4. The volume's claimRef, when the pod has succeeded. From then on the volume is the user's.
//  5. The pod and the prime claim are deleted when the binder has bound the user's claim and has marked the
//     prime claim Lost: it does not take the volume for released then (VP-11, VP-16).
//  6. The finalizer, when both are being deleted.
func Decide(s Snapshot, now time.Time) next {
	ref, isOurs := s.SourceOf(s.Claim)
	switch {
	case s.Claim == nil:
		return sweep(s)
	case !isOurs || isInTree(s):
		return silent(verdict.PopulatorIdle, "the claim has no source of this populator")
	case s.Claim.DeletionTimestamp != nil:
		return cleanUp(made(s), because(verdict.PopulatorCleanedUp, "the claim is being deleted"))
	case s.Claim.Spec.VolumeName != "":
		return bound(made(s))
	case made(s).Prime != s.Prime || made(s).Pod != s.Pod:
		return foreign(s)
	case isGiven(s): // whatever became of the prime claim
		return waiting(verdict.PopulatorBindingAwaited,
			"the volume has its data and names the claim; the PV controller has not bound the claim yet")
	case s.Prime == nil:
		return begin(s, ref)
	case s.Prime.DeletionTimestamp != nil:
		return restart(s, "the prime claim is being deleted")
	case !isProtected(s):
		return protect(s)
	case s.Prime.Spec.VolumeName == "":
		return awaitVolume(s)
	case s.Volume == nil:
		if s.Prime.Status.Phase == corev1.ClaimLost {
			return restart(s, "the volume of the prime claim is gone")
		}
		return waiting(verdict.PopulatorVolumeAwaited, "the prime claim waits for its volume")
	}
	return fill(s, ref, now)
}

// fill decides about a claim whose prime claim has a volume.
func fill(s Snapshot, ref source.Ref, now time.Time) next {
	switch owner := s.Volume.Spec.ClaimRef; {
	case owner == nil || owner.UID != s.Prime.UID: // VP-H3: there may be no claimRef
		return refuse{Retry: verdict.RetrySlowly, Finding: because(verdict.PopulatorVolumeForeign,
			"the volume "+s.Volume.Name+" does not name the prime claim "+s.Prime.Namespace+"/"+s.Prime.Name+
				" in spec.claimRef any more")}
	case s.Prime.Status.Phase != corev1.ClaimBound:
		return waiting(verdict.PopulatorVolumeAwaited, "the prime claim is not bound yet")
	case s.Pod == nil:
		return startPod(s, ref)
	case s.Pod.DeletionTimestamp != nil:
		return waiting(verdict.PopulatorPodEnding, "the pod of the last attempt is being deleted")
	case s.Pod.Status.Phase == corev1.PodSucceeded:
		return give(s, ref)
	case s.Pod.Status.Phase == corev1.PodFailed:
		return retry(s, now)
	}
	return progress(s, now)
}

// begin decides about a claim without a prime claim (VP-6, VP-7).
func begin(s Snapshot, ref source.Ref) next {
	if s.Pod != nil { // its claim is gone, so it has nothing to write to
		return doing(because(verdict.PopulatorCleaning, "the prime claim of the pod is gone"),
			waiting(verdict.PopulatorPodEnding, "the pod is being deleted"), deletePod(s)...)
	}
	if v := checkSource(s, ref); v != nil {
		return v
	}
	switch {
	case s.Class == nil:
		return waiting(verdict.PopulatorClassAwaited, "the claim has no StorageClass, or one that does not exist")
	case isDelayed(s.Class) && s.Claim.Annotations[names.AnnSelectedNode] == "":
		return waiting(verdict.PopulatorConsumerAwaited,
			"the class binds when a pod that uses the claim has a node, and no node is selected yet")
	}
	var actions []Action
	if !isProtected(s) {
		actions = append(actions, AddFinalizer{s.Claim})
	}
	prime := s.NewPrime(s.Claim)
	return doing(
		because(verdict.PopulatorPrimeCreated, "the claim "+prime.Namespace+"/"+prime.Name+" gets the volume first"),
		waiting(verdict.PopulatorVolumeAwaited, "the prime claim waits for its volume"),
		append(actions, CreatePrime{prime})...,
	)
}

// checkSource returns why the source cannot be read; nil if it can.
func checkSource(s Snapshot, ref source.Ref) next {
	if ref.Namespace != s.Claim.Namespace {
		switch {
		case !s.CrossNamespace:
			return refuse{Retry: verdict.RetrySlowly, Finding: because(verdict.PopulatorSourceNotGranted,
				fmt.Sprintf("spec.dataSourceRef.namespace %q is not the namespace of the claim, and the populator was "+
					"started without --cross-namespace", ref.Namespace))}
		case !s.HasGrants:
			return verdict.MustRead[Action](verdict.Ref{What: ReadGrants, Namespace: ref.Namespace})
		case !source.IsGranted(s.Claim, ref, s.Grants):
			return refuse{Finding: because(verdict.PopulatorSourceNotGranted,
				fmt.Sprintf("no ReferenceGrant in namespace %q lets a PersistentVolumeClaim in namespace %q refer to "+
					"%s %q",
					ref.Namespace, s.Claim.Namespace, ref.Kind, ref.Name))}
		}
	}
	switch {
	case !s.Source.Found:
		return wait{Finding: because(verdict.PopulatorSourceMissing, ref.String()+" does not exist")}
	case s.Source.Problem != "":
		found := because(verdict.PopulatorSourceInvalid, ref.String()+": "+s.Source.Problem)
		found.Fix = s.Source.Fix
		return wait{Finding: found}
	}
	return nil
}

// protect adds the finalizer that a claim with a prime claim has lost, for example to a user.
func protect(s Snapshot) next {
	return doing(because(verdict.PopulatorPrimeCreated, "the claim has a prime claim and no finalizer"),
		waiting(verdict.PopulatorVolumeAwaited, "the next step follows"), AddFinalizer{s.Claim})
}

// awaitVolume decides about a prime claim that waits for its volume. It follows the selected node: when the
// provisioner has removed it from the prime claim, since no volume can be made for that node, it is removed
// from the user's claim as well, for the scheduler reads that one (VP-H5).
func awaitVolume(s Snapshot) next {
	node, copied := s.Claim.Annotations[names.AnnSelectedNode], s.Prime.Annotations[s.NodeAnnotation()]
	awaited := waiting(verdict.PopulatorVolumeAwaited, "the prime claim waits for its volume")
	switch node {
	case "", s.Prime.Annotations[names.AnnSelectedNode]:
		return awaited
	case copied:
		return doing(because(verdict.PopulatorNodeReturned, "no volume can be made for node "+node+
			", so the scheduler selects another"), awaited, ReturnNode{s.Claim})
	}
	return doing(because(verdict.PopulatorNodeCopied, "the volume is made for node "+node), awaited,
		CopyNode{s.Prime, node})
}

// startPod decides about a bound prime claim without a pod. The source is read for the pod.
func startPod(s Snapshot, ref source.Ref) next {
	if v := checkSource(s, ref); v != nil {
		return v
	}
	started := because(verdict.PopulatorCreated, "Populator started") // an event when it is done
	return doing(started, wait{Finding: started}, CreatePod{s.Failures(s.Prime)})
}

// progress decides about a pod that has not ended.
func progress(s Snapshot, now time.Time) next {
	until := now.Add(progressEvery)
	if s.Progress != nil {
		if text := s.Progress.text(); text != "" {
			return wait{Until: until, Finding: because(verdict.PopulatorProgress, text)}
		}
	}
	if s.Pod.Status.Phase != corev1.PodRunning {
		return waiting(verdict.PopulatorPodPending, "the pod "+s.Pod.Namespace+"/"+s.Pod.Name+" does not run yet")
	}
	return wait{Until: until, Finding: because(verdict.PopulatorRunning, "the pod writes the data")}
}

// text returns what an event says of the progress; empty for nothing.
func (p Progress) text() string {
	switch {
	case p.Again > 0 && p.Done > 0:
		return fmt.Sprintf("%d bytes are written; %d%% of them are read again before the rest is written",
			p.Done, percent(p.Again, p.Done))
	case p.Total > 0 && percent(p.Done, p.Total) > 0:
		return fmt.Sprintf("%d%% of %d bytes are written", percent(p.Done, p.Total), p.Total)
	}
	return ""
}

// percent returns the last step that is reached. Each has an event.
func percent(part, all int64) int64 {
	return min(part, all) * progressSteps / all * 100 / progressSteps
}

const (
	progressEvery = 15 * time.Second
	progressSteps = 4
)

// retry decides about a failed pod. It is counted, with an event, and stays until the next attempt is
// due, for its log (VP-H2).
func retry(s Snapshot, now time.Time) next {
	failed := s.Failures(s.Pod) + 1
	due, message := now, "the pod failed"
	if s.Outcome != nil {
		due = s.Outcome.At.Add(s.delay(failed))
		if s.Outcome.Message != "" {
			message = s.Outcome.Message
		}
	}
	at := due.UTC().Format(time.RFC3339)
	awaited := wait{Until: due, Finding: because(verdict.PopulatorRetryAwaited, fmt.Sprintf(
		"the attempt after %d failed ones is at %s", failed, at))}
	switch {
	case s.Failures(s.Prime) < failed:
		return doing(because(verdict.PopulatorFailed, fmt.Sprintf(
			"attempt %d failed: %s; the next one is at %s, and the pod %s/%s is kept until then",
			failed, message, at, s.Pod.Namespace, s.Pod.Name)), awaited, CountFailure{s.Prime, failed})
	case now.Before(due):
		return awaited
	}
	return doing(because(verdict.PopulatorRetried, fmt.Sprintf("the next attempt after %d failed ones", failed)),
		waiting(verdict.PopulatorPodEnding, "the pod of the last attempt is being deleted"), DeletePod{s.Pod})
}

// delay returns how long after the given number of failures the next pod is created.
func (s Settings) delay(failed int) time.Duration {
	d := s.RetryFirst
	for range failed - 1 {
		if d *= 2; d >= s.RetryMost {
			return s.RetryMost
		}
	}
	return min(d, s.RetryMost)
}

// give decides about a pod that has written the data. The claim is read live: the write to the volume
// cannot have the claim's resourceVersion as its precondition, and a volume that names a claim which is
// bound to another would be deleted with the data.
func give(s Snapshot, ref source.Ref) next {
	live := s.LiveClaim
	switch {
	case !s.IsLive:
		return verdict.MustRead[Action](verdict.Ref{What: ReadClaim, Namespace: s.Claim.Namespace, Name: s.Claim.Name})
	case live == nil || live.UID != s.UID || live.DeletionTimestamp != nil || live.Spec.VolumeName != "":
		return refuse{Finding: because(verdict.PopulatorClaimChanged, "the cached claim is stale")}
	}
	return doing(because(verdict.PopulatorRebound, "the data is written, and the volume "+s.Volume.Name+
		" is given to the claim"),
		waiting(verdict.PopulatorBindingAwaited, "the PV controller has not bound the claim yet"),
		Rebind{s.Volume, live, ref.Namespace + "/" + ref.Name})
}

// bound decides about a claim that names a volume.
func bound(s Snapshot) next {
	if s.Prime != nil && s.Prime.Spec.VolumeName == s.Claim.Spec.VolumeName && s.Prime.DeletionTimestamp == nil {
		if !isGiven(s) || s.Claim.Status.Phase != corev1.ClaimBound || s.Prime.Status.Phase != corev1.ClaimLost {
			return waiting(verdict.PopulatorBindingAwaited, "the PV controller has not bound the claim, or has not "+
				"marked the prime claim as Lost yet")
		}
		return cleanUp(s, because(verdict.PopulatorFinished, "Populator finished"))
	}
	if s.Prime == nil && s.Pod == nil && !isProtected(s) {
		return silent(verdict.PopulatorIdle, "the claim has its volume")
	}
	return cleanUp(s, because(verdict.PopulatorCleanedUp, "the claim has its volume"))
}

// sweep decides about objects whose claim is gone. A live read confirms it.
func sweep(s Snapshot) next {
	switch s = made(s); {
	case s.Prime == nil && s.Pod == nil:
		return silent(verdict.PopulatorIdle, "the claim is gone")
	case !s.IsLive:
		return verdict.MustRead[Action](verdict.Ref{What: ReadClaim})
	case s.LiveClaim != nil && s.LiveClaim.UID == s.UID:
		return refuse{Finding: because(verdict.PopulatorClaimChanged, "the cache does not have the claim yet")}
	}
	return cleanUp(s, because(verdict.PopulatorCleanedUp, "the claim is gone"))
}

// cleanUp deletes the pod and the prime claim, and then removes the finalizer.
func cleanUp(s Snapshot, done finding) next {
	actions := deletePod(s)
	if s.Prime != nil && s.Prime.DeletionTimestamp == nil {
		actions = append(actions, DeletePrime{s.Prime})
	}
	if isProtected(s) {
		actions = append(actions, DropFinalizer{s.Claim})
	}
	return verdict.DoFirst(done, actions, nothing{Finding: done})
}

// restart deletes the pod and the prime claim, which are made again when both are gone.
func restart(s Snapshot, why string) next {
	actions := deletePod(s)
	if s.Prime.DeletionTimestamp == nil {
		actions = append(actions, DeletePrime{s.Prime})
	}
	return doing(because(verdict.PopulatorCleaning, why),
		waiting(verdict.PopulatorPodEnding, "the prime claim is being deleted, and is created again"), actions...)
}

func deletePod(s Snapshot) []Action {
	if s.Pod == nil || s.Pod.DeletionTimestamp != nil {
		return nil
	}
	return []Action{DeletePod{s.Pod}}
}

// foreign refuses a name that an object of another program has.
func foreign(s Snapshot) next {
	what := "pod " + PodName(s.UID)
	if made(s).Prime != s.Prime {
		what = "claim " + PrimeName(s.UID)
	}
	return refuse{Retry: verdict.RetrySlowly, Finding: because(verdict.PopulatorNameTaken,
		"the "+what+" in namespace "+s.Namespace+" was not made by this populator")}
}

// made returns the snapshot without objects that were not made for the claim.
func made(s Snapshot) Snapshot {
	if s.Prime != nil && !isMade(s, s.Prime) {
		s.Prime = nil
	}
	if s.Pod != nil && !isMade(s, s.Pod) {
		s.Pod = nil
	}
	return s
}

// isMade reports whether an object was made for the claim.
func isMade(s Snapshot, o Marked) bool {
	_, uid, is := s.ClaimOf(o)
	return is && uid == s.UID
}

// isGiven reports whether the volume names the user's claim.
func isGiven(s Snapshot) bool {
	return s.Volume != nil && s.Volume.Spec.ClaimRef != nil && s.Volume.Spec.ClaimRef.UID == s.UID
}

func isProtected(s Snapshot) bool {
	return s.Claim != nil && slices.Contains(s.Claim.Finalizers, s.Finalizer())
}

// isInTree reports whether an in-tree plugin provisions the class, which makes no prime claims (VP-5).
func isInTree(s Snapshot) bool {
	const inTree = "kubernetes.io/"
	return s.Class != nil && len(s.Class.Provisioner) > len(inTree) && s.Class.Provisioner[:len(inTree)] == inTree &&
		s.Claim.Annotations[names.AnnMigratedTo] == "" && !isProtected(s)
}

func isDelayed(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func because(reason verdict.Reason, message string) finding {
	return finding{Reason: reason, Message: message, Fix: advice(reason)}
}

// advice returns the fix of a reason that has a Warning.
func advice(reason verdict.Reason) string {
	if verdict.Describe(reason).Severity != verdict.Warning {
		return ""
	}
	return verdict.Advice(reason)
}

func silent(reason verdict.Reason, message string) next {
	return nothing{Finding: because(reason, message)}
}

func waiting(reason verdict.Reason, message string) next {
	return wait{Finding: because(reason, message)}
}

func doing(why finding, then next, actions ...Action) next {
	return verdict.DoFirst(why, actions, then)
}
