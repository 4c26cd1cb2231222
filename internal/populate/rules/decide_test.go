package populate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

var (
	testSettings = Settings{
		Namespace: "work", Prefix: "p.example.com", Kind: schema.GroupKind{Group: "g.example.com", Kind: "Source"},
		RetryFirst: 10 * time.Second, RetryMost: time.Minute,
	}
	testNow = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
)

// The stages of a claim; each has what the ones before have.
func claimed(s *Snapshot) {
	s.Settings, s.UID = testSettings, "u1"
	s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u1"}}
	s.Claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("g.example.com"), Kind: "Source", Name: "s"}
	s.Claim.Spec.StorageClassName = new("fast")
	s.Class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "csi.example.com"}
	s.Source.Found = true
}

func primed(s *Snapshot) {
	claimed(s)
	s.Claim.Finalizers = []string{s.Finalizer()}
	s.Prime = s.NewPrime(s.Claim)
	s.Prime.UID = "p1"
}

func provisioned(s *Snapshot) {
	primed(s)
	s.Prime.Spec.VolumeName, s.Prime.Status.Phase = "pv", corev1.ClaimBound
	s.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "v1"}}
	s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "work", Name: s.Prime.Name, UID: "p1"}
}

func podded(phase corev1.PodPhase) func(*Snapshot) {
	return func(s *Snapshot) {
		provisioned(s)
		s.Pod = &corev1.Pod{ObjectMeta: s.Marks(s.Claim)}
		s.Pod.Name, s.Pod.UID = PodName("u1"), "o1"
		s.Pod.Status.Phase = phase
		s.Outcome = &Outcome{Message: "no route", At: testNow.Add(-5 * time.Second)}
	}
}

func given(s *Snapshot) {
	podded(corev1.PodSucceeded)(s)
	s.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u1"}
}

func bothBound(s *Snapshot) {
	given(s)
	s.Claim.Spec.VolumeName, s.Claim.Status.Phase = "pv", corev1.ClaimBound
	s.Prime.Status.Phase = corev1.ClaimLost
}

func deleted(o metav1.Object) { o.SetDeletionTimestamp(new(metav1.NewTime(testNow))) }

// then changes a stage.
func then(stage func(*Snapshot), change func(*Snapshot)) func(*Snapshot) {
	return func(s *Snapshot) { stage(s); change(s) }
}

func delayed(s *Snapshot) {
	s.Class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
}

func live(s *Snapshot) { s.IsLive, s.LiveClaim = true, s.Claim.DeepCopy() }

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		name  string
		state func(*Snapshot)
		want  string // the reason, and the actions
	}{
		{"VP-5 a source of another kind", then(claimed, func(s *Snapshot) { s.Claim.Spec.DataSourceRef.Kind = "Other" }), "PopulatorIdle"},
		{"VP-5 a source of another group", then(claimed, func(s *Snapshot) { s.Claim.Spec.DataSourceRef.APIGroup = nil }), "PopulatorIdle"},
		{"VP-5 no name", then(claimed, func(s *Snapshot) { s.Claim.Spec.DataSourceRef.Name = "" }), "PopulatorIdle"},
		{"VP-5 a claim in the working namespace", then(claimed, func(s *Snapshot) { s.Claim.Namespace = "work" }), "PopulatorIdle"},
		{"VP-5 an in-tree plugin", then(claimed, func(s *Snapshot) { s.Class.Provisioner = "kubernetes.io/nfs" }), "PopulatorIdle"},
		{"VP-5 a migrated one", then(claimed, func(s *Snapshot) {
			s.Class.Provisioner = "kubernetes.io/aws-ebs"
			s.Claim.Annotations = map[string]string{names.AnnMigratedTo: "ebs.csi.aws.com"}
		}), "PopulatorPrimeCreated AddFinalizer CreatePrime"},
		{"VP-6 another namespace, not served", then(claimed, elsewhere), "PopulatorSourceNotGranted"},
		{"VP-6 another namespace", then(claimed, func(s *Snapshot) { elsewhere(s); s.CrossNamespace = true }), "read ReferenceGrants/depot"},
		{"VP-6 without a grant", then(claimed, func(s *Snapshot) { elsewhere(s); s.CrossNamespace, s.HasGrants = true, true }), "PopulatorSourceNotGranted"},
		{"VP-6 with a grant", then(claimed, func(s *Snapshot) {
			elsewhere(s)
			s.CrossNamespace, s.HasGrants = true, true
			s.Grants = []source.Grant{{
				From: []source.GrantFrom{{Kind: "PersistentVolumeClaim", Namespace: "shop"}},
				To:   []source.GrantTo{{Group: "g.example.com", Kind: "Source"}},
			}}
		}), "PopulatorPrimeCreated AddFinalizer CreatePrime"},
		{"VP-7 no source", then(claimed, func(s *Snapshot) { s.Source.Found = false }), "PopulatorSourceMissing"},
		{"VP-7 a source that is refused", then(claimed, func(s *Snapshot) { s.Source.Problem = "spec.url" }), "PopulatorSourceInvalid"},
		{"VP-7 no class", then(claimed, func(s *Snapshot) { s.Class = nil }), "PopulatorClassAwaited"},
		{"VP-7 no consumer", then(claimed, delayed), "PopulatorConsumerAwaited"},
		{"VP-7 a consumer", then(claimed, func(s *Snapshot) { delayed(s); selected(s, "n1") }), "PopulatorPrimeCreated AddFinalizer CreatePrime"},
		{"VP-H1 the finalizer first", claimed, "PopulatorPrimeCreated AddFinalizer CreatePrime"},
		{"VP-H1 killed after the finalizer", then(primed, func(s *Snapshot) { s.Prime = nil }), "PopulatorPrimeCreated CreatePrime"},
		{"VP-H1 the finalizer was taken away", then(primed, func(s *Snapshot) { s.Claim.Finalizers = nil }), "PopulatorPrimeCreated AddFinalizer"},
		{"VP-2 the name is another's", then(primed, func(s *Snapshot) { s.Prime.Labels = nil }), "PopulatorNameTaken"},
		{"VP-2 the name of the pod is another's", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Pod.Annotations = nil }), "PopulatorNameTaken"},
		{"VP-8 no volume yet", primed, "PopulatorVolumeAwaited"},
		{"VP-8 the volume is not in the cache", then(provisioned, func(s *Snapshot) { s.Volume = nil }), "PopulatorVolumeAwaited"},
		{"VP-8 not bound yet", then(provisioned, func(s *Snapshot) { s.Prime.Status.Phase = corev1.ClaimPending }), "PopulatorVolumeAwaited"},
		{"VP-H5 the node is the one that was copied", then(primed, func(s *Snapshot) { selected(s, "n1"); copiedTo(s, "n1", "n1") }), "PopulatorVolumeAwaited"},
		{
			"VP-H5 the provisioner gave the node back",
			then(primed, func(s *Snapshot) { selected(s, "n1"); copiedTo(s, "", "n1") }),
			"PopulatorNodeReturned ReturnNode",
		},
		{"VP-H5 no node is selected since", then(primed, func(s *Snapshot) { copiedTo(s, "", "n1") }), "PopulatorVolumeAwaited"},
		{"VP-H5 another node is selected", then(primed, func(s *Snapshot) { selected(s, "n2"); copiedTo(s, "", "n1") }), "PopulatorNodeCopied CopyNode"},
		{"VP-9 the pod", provisioned, "PopulatorCreated CreatePod"},
		{"VP-9 the source is gone before the pod", then(provisioned, func(s *Snapshot) { s.Source.Found = false }), "PopulatorSourceMissing"},
		{"VP-9 the source is gone after the pod", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Source.Found = false }), "PopulatorRunning"},
		{"VP-9 the pod does not run yet", podded(corev1.PodPending), "PopulatorPodPending"},
		{"VP-9 the pod runs", podded(corev1.PodRunning), "PopulatorRunning"},
		{"VP-9 half of it", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Progress = &Progress{Done: 60, Total: 100} }), "PopulatorProgress"},
		{"VP-9 less than a step", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Progress = &Progress{Done: 20, Total: 100} }), "PopulatorRunning"},
		{"VP-9 of an unknown size", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Progress = &Progress{Done: 20} }), "PopulatorRunning"},
		{
			"VP-9 what is written is read again",
			then(podded(corev1.PodRunning), func(s *Snapshot) { s.Progress = &Progress{Done: 20, Again: 1} }),
			"PopulatorProgress",
		},
		{"VP-H2 the failed pod is counted", podded(corev1.PodFailed), "PopulatorFailed CountFailure"},
		{
			"VP-H2 the next attempt is due, and the pod is not counted",
			then(podded(corev1.PodFailed), func(s *Snapshot) { failedFor(s, time.Hour) }),
			"PopulatorFailed CountFailure",
		},
		{
			"VP-H2 the failed pod is kept",
			then(podded(corev1.PodFailed), func(s *Snapshot) { counted(s, "1", ""); failedFor(s, 9*time.Second) }),
			"PopulatorRetryAwaited",
		},
		{
			"VP-H2 the next attempt is due",
			then(podded(corev1.PodFailed), func(s *Snapshot) { counted(s, "1", ""); failedFor(s, 10*time.Second) }),
			"PopulatorRetried DeletePod",
		},
		{
			"VP-H2 the third attempt waits longer",
			then(podded(corev1.PodFailed), func(s *Snapshot) { counted(s, "3", "2"); failedFor(s, 39*time.Second) }),
			"PopulatorRetryAwaited",
		},
		{
			"VP-H2 the third attempt is due",
			then(podded(corev1.PodFailed), func(s *Snapshot) { counted(s, "3", "2"); failedFor(s, 40*time.Second) }),
			"PopulatorRetried DeletePod",
		},
		{"VP-H2 the pod is being deleted", then(podded(corev1.PodFailed), func(s *Snapshot) { deleted(s.Pod) }), "PopulatorPodEnding"},
		{"VP-11 the claim is read live", podded(corev1.PodSucceeded), "read live claim/shop/data"},
		{"VP-11 the volume is given", then(podded(corev1.PodSucceeded), live), "PopulatorRebound Rebind"},
		{
			"VP-11 the claim has a volume since",
			then(podded(corev1.PodSucceeded), func(s *Snapshot) { live(s); s.LiveClaim.Spec.VolumeName = "x" }),
			"PopulatorClaimChanged",
		},
		{
			"VP-11 the claim is being deleted since",
			then(podded(corev1.PodSucceeded), func(s *Snapshot) { live(s); deleted(s.LiveClaim) }),
			"PopulatorClaimChanged",
		},
		{
			"VP-11 the claim was created again",
			then(podded(corev1.PodSucceeded), func(s *Snapshot) { live(s); s.LiveClaim.UID = "u2" }),
			"PopulatorClaimChanged",
		},
		{"VP-11 the claim is gone", then(podded(corev1.PodSucceeded), func(s *Snapshot) { s.IsLive = true }), "PopulatorClaimChanged"},
		{"VP-H3 the volume has no claimRef", then(podded(corev1.PodSucceeded), func(s *Snapshot) { s.Volume.Spec.ClaimRef = nil }), "PopulatorVolumeForeign"},
		{"VP-11 the volume is another's", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "x" }), "PopulatorVolumeForeign"},
		{"VP-11 given and not bound", given, "PopulatorBindingAwaited"},
		{"VP-11 given, and the prime claim is gone", then(given, func(s *Snapshot) { s.Prime, s.Pod = nil, nil }), "PopulatorBindingAwaited"},
		{
			"VP-11 bound, and the prime claim is not Lost",
			then(bothBound, func(s *Snapshot) { s.Prime.Status.Phase = corev1.ClaimBound }), "PopulatorBindingAwaited",
		},
		{
			"VP-11 Lost, and the claim is not bound",
			then(bothBound, func(s *Snapshot) { s.Claim.Status.Phase = corev1.ClaimPending }),
			"PopulatorBindingAwaited",
		},
		{"VP-11 a stale volume", then(bothBound, func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "p1" }), "PopulatorBindingAwaited"},
		{"VP-12 done", bothBound, "PopulatorFinished DeletePod DeletePrime DropFinalizer"},
		{"VP-12 killed after the pod", then(bothBound, func(s *Snapshot) { s.Pod = nil }), "PopulatorFinished DeletePrime DropFinalizer"},
		{"VP-12 killed after the prime claim", then(bothBound, func(s *Snapshot) { s.Pod = nil; deleted(s.Prime) }), "PopulatorCleanedUp DropFinalizer"},
		{"VP-12 nothing is left", then(bothBound, func(s *Snapshot) { s.Pod, s.Prime, s.Claim.Finalizers = nil, nil, nil }), "PopulatorIdle"},
		{
			"VP-12 the claim was bound to another",
			then(podded(corev1.PodRunning), func(s *Snapshot) { s.Claim.Spec.VolumeName = "x" }),
			"PopulatorCleanedUp DeletePod DeletePrime DropFinalizer",
		},
		{
			"VP-12 the claim is being deleted",
			then(podded(corev1.PodRunning), func(s *Snapshot) { deleted(s.Claim) }),
			"PopulatorCleanedUp DeletePod DeletePrime DropFinalizer",
		},
		{"VP-12 it is deleted before the prime claim", then(primed, func(s *Snapshot) { s.Prime = nil; deleted(s.Claim) }), "PopulatorCleanedUp DropFinalizer"},
		{
			"VP-12 it is deleted, and the name is another's",
			then(primed, func(s *Snapshot) { s.Prime.Labels = nil; deleted(s.Claim) }),
			"PopulatorCleanedUp DropFinalizer",
		},
		{"VP-12 the prime claim was deleted", then(podded(corev1.PodRunning), func(s *Snapshot) { deleted(s.Prime) }), "PopulatorCleaning DeletePod"},
		{
			"VP-12 the prime claim is gone under its pod",
			then(podded(corev1.PodRunning), func(s *Snapshot) { s.Prime, s.Volume = nil, nil }),
			"PopulatorCleaning DeletePod",
		},
		{
			"VP-12 the volume was deleted",
			then(
				podded(corev1.PodRunning), func(s *Snapshot) { s.Volume, s.Prime.Status.Phase = nil, corev1.ClaimLost },
			),
			"PopulatorCleaning DeletePod DeletePrime",
		},
		{"VP-H1 the claim is gone: read live", then(podded(corev1.PodRunning), func(s *Snapshot) { s.Claim = nil }), "read live claim"},
		{
			"VP-H1 the claim is gone",
			then(podded(corev1.PodRunning), func(s *Snapshot) { s.Claim, s.IsLive = nil, true }),
			"PopulatorCleanedUp DeletePod DeletePrime",
		},
		{"VP-H1 the cache has the claim later", then(podded(corev1.PodRunning), func(s *Snapshot) { live(s); s.Claim = nil }), "PopulatorClaimChanged"},
		{"VP-H1 the claim is gone, and the object is another's", then(primed, func(s *Snapshot) { s.Claim, s.Prime.Labels = nil, nil }), "PopulatorIdle"},
		{"VP-H1 nothing is left of the claim", then(claimed, func(s *Snapshot) { s.Claim = nil }), "PopulatorIdle"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s Snapshot
			tc.state(&s)
			if got := text(Decide(s, testNow)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// failedFor has the pod failed so long ago.
func failedFor(s *Snapshot, ago time.Duration) { s.Outcome.At = testNow.Add(-ago) }

// counted sets the failures that the prime claim and the pod say.
func counted(s *Snapshot, prime, pod string) {
	s.Prime.Annotations[s.AttemptsAnnotation()], s.Pod.Annotations[s.AttemptsAnnotation()] = prime, pod
}

func elsewhere(s *Snapshot) { s.Claim.Spec.DataSourceRef.Namespace = new("depot") }

func selected(s *Snapshot, node string) {
	s.Claim.Annotations = map[string]string{names.AnnSelectedNode: node}
}

func copiedTo(s *Snapshot, has, last string) {
	s.Prime.Annotations[names.AnnSelectedNode], s.Prime.Annotations[s.NodeAnnotation()] = has, last
}

// text returns a verdict as its reason and the names of its actions.
func text(v next) string {
	switch v := v.(type) {
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	case do:
		words := []string{string(v.Reason)}
		for _, a := range v.Actions {
			words = append(words, reflect.TypeOf(a).Name())
		}
		return strings.Join(words, " ")
	}
	return string(v.Because().Reason)
}

// VP-8, VP-3, VP-H3: what the prime claim has of the claim.
func TestNewPrime(t *testing.T) {
	var s Snapshot
	claimed(&s)
	selected(&s, "n1")
	s.Claim.Spec.VolumeAttributesClassName, s.Claim.Spec.VolumeMode = new("gold"), new(corev1.PersistentVolumeBlock)
	s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	s.Claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	prime := s.NewPrime(s.Claim)
	got := fmt.Sprint(prime.Namespace, "/", prime.Name, " ", *prime.Spec.VolumeAttributesClassName, " ",
		*prime.Spec.VolumeMode, " ",
		*prime.Spec.StorageClassName, " ", prime.Spec.AccessModes, " ", prime.Annotations[names.AnnSelectedNode], " ",
		prime.Spec.DataSourceRef)
	if want := "work/prime-u1 gold Block fast [ReadWriteOnce ReadOnlyMany] n1 nil"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if prime.Spec.Selector == nil || prime.Spec.Selector.MatchLabels["tier"] != "gold" ||
		prime.Spec.Selector == s.Claim.Spec.Selector {
		t.Errorf("the selector is %v", prime.Spec.Selector)
	}
	s.Claim.Annotations[names.AnnBetaStorageClass] = "old"
	if got := s.NewPrime(s.Claim).Spec.StorageClassName; got == nil || *got != "old" {
		t.Errorf("the class of an old claim is %v", got)
	}
	name, uid, is := s.ClaimOf(prime)
	if !is || uid != "u1" || name.String() != "shop/data" {
		t.Errorf("the prime claim leads to %s %s, %t", name, uid, is)
	}
}

// VP-H2: the delay doubles up to its bound.
func TestDelay(t *testing.T) {
	for failed, want := range map[int]time.Duration{
		1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 4: time.Minute, 99: time.Minute,
	} {
		if got := testSettings.delay(failed); got != want {
			t.Errorf("after %d: %s, want %s", failed, got, want)
		}
	}
}
