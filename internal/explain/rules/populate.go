package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
	populate "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/shell"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// longestFill is how long the pod of a populator may write before it is worth a look.
const longestFill = 6 * time.Hour

// populating explains a claim whose source only a populator serves. The populator makes the volume for
// a prime claim in its own namespace, a pod fills it, and then the volume is given to the claim.
func (c *Cluster) populating(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	f.Evidence = []Evidence{{claimRef(claim), "spec.dataSourceRef", source.Of(claim).String(), ""}}
	prime := c.primeOf(claim)
	if prime == nil {
		return []Finding{c.populatorAwaited(claim, f)}
	}
	f.Evidence = append(f.Evidence, Evidence{claimRef(prime), "status.phase", string(prime.Status.Phase), ""})
	s := c.populateSnapshot(claim, prime)
	switch reason := populate.Decide(s, c.Now).Because().Reason; reason {
	case verdict.PopulatorVolumeAwaited:
		f = f.about(claimRef(prime)).waits(reason, Itself,
			"prime claim %s in namespace %s, for which its volume is made first, to be bound",
			prime.Name, prime.Namespace)
	case verdict.PopulatorVolumeForeign:
		f = c.populatorVolumeForeign(s, f)
	case verdict.PopulatorFailed, verdict.PopulatorRetryAwaited, verdict.PopulatorRetried:
		f = c.populatorPodFailed(s.Pod, f)
	case verdict.PopulatorPodPending:
		f = f.about(podRef(s.Pod)).waits(reason, Itself, "pod %s in namespace %s, which writes its data, to run",
			s.Pod.Name, s.Pod.Namespace)
		f.Since = &s.Pod.CreationTimestamp.Time
	case verdict.PopulatorRunning, verdict.PopulatorProgress:
		f = f.about(podRef(s.Pod)).waits(reason, Itself, "pod %s in namespace %s to write its data", s.Pod.Name,
			s.Pod.Namespace)
		until := s.Pod.CreationTimestamp.Add(longestFill)
		f.Since, f.Until = &s.Pod.CreationTimestamp.Time, &until
	case verdict.PopulatorPodEnding, verdict.PopulatorCleaning:
		f = f.waits(reason, Itself,
			"the populator to begin again, when pod and prime claim of the last attempt are gone")
		f.Since = nil
	default: // the populator has a step to do
		f = c.populatorAwaited(claim, f)
	}
	return []Finding{f}
}

// primesByName returns the claims that have the name of a prime claim, each in a namespace of its own.
func primesByName(claims []*corev1.PersistentVolumeClaim) map[string][]*corev1.PersistentVolumeClaim {
	primes := map[string][]*corev1.PersistentVolumeClaim{}
	for _, claim := range claims {
		if strings.HasPrefix(claim.Name, populate.PrimePrefix) {
			primes[claim.Name] = append(primes[claim.Name], claim)
		}
	}
	return primes
}

// heldByPopulator is about the finalizer of a populator on a claim in deletion.
func (c *Cluster) heldByPopulator(claim *corev1.PersistentVolumeClaim, finalizer string, f Finding) Finding {
	prime := c.primeOf(claim)
	if prime == nil || prime.DeletionTimestamp == nil {
		return c.heldBy(finalizer, f)
	}
	f.Evidence = append(f.Evidence, Evidence{claimRef(prime), "metadata.name", prime.Name, "it is gone"})
	return f.about(claimRef(prime)).waits(verdict.FinalizerHeld, Itself,
		"its populator to delete prime claim %s in namespace %s", prime.Name, prime.Namespace)
}

// primeOf returns the prime claim of a claim: the name has the uid of the claim; nil for none.
func (c *Cluster) primeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	for _, prime := range c.index.primes[populate.PrimeName(claim.UID)] {
		if prime.Namespace != claim.Namespace {
			return prime
		}
	}
	return nil
}

// finalizerOfPopulators ends the finalizer that a populator adds to a claim, upstream's library too.
var finalizerOfPopulators = populate.Settings{}.Finalizer()

// populatorOf returns the prefix of the populator that has added its finalizer to a claim; empty for none.
func populatorOf(claim *corev1.PersistentVolumeClaim) string {
	for _, finalizer := range claim.Finalizers {
		if prefix, is := strings.CutSuffix(finalizer, finalizerOfPopulators); is {
			return prefix
		}
	}
	return ""
}

// populateSnapshot returns the inputs of the populator's decision. The prime claim exists, so the source did,
// and a reference to another namespace was granted. The objects of upstream's library have no marks, and in a
// dump with hidden names they are redacted, so the name counts.
func (c *Cluster) populateSnapshot(claim, prime *corev1.PersistentVolumeClaim) populate.Snapshot {
	ref := source.Of(claim)
	s := populate.Snapshot{
		Settings: populate.Settings{
			Namespace: prime.Namespace, Prefix: populatorOf(claim), CrossNamespace: true,
			Kind: schema.GroupKind{Group: ref.Group, Kind: ref.Kind}, RetryFirst: time.Second, RetryMost: time.Minute,
		},
		UID: claim.UID, Claim: claim, Class: c.index.classes[objects.ClaimClass(claim)],
		Source: populate.Source{Found: true}, IsLive: true, LiveClaim: claim, HasGrants: true,
		Grants: []source.Grant{{
			From: []source.GrantFrom{{Kind: source.KindClaim, Namespace: claim.Namespace}},
			To:   []source.GrantTo{{Group: ref.Group, Kind: ref.Kind}},
		}},
	}
	marks := s.Marks(claim)
	s.Prime = prime.DeepCopy()
	s.Prime.Labels, s.Prime.Annotations = marks.Labels, marks.Annotations
	s.Volume = c.index.volumes[prime.Spec.VolumeName]
	if c.lacks(Volume) && prime.Spec.VolumeName != "" {
		s.Volume = &corev1.PersistentVolume{}
		s.Volume.Spec.ClaimRef = &corev1.ObjectReference{UID: prime.UID}
	}
	key := types.NamespacedName{Namespace: prime.Namespace, Name: populate.PodName(claim.UID)}
	if pod := c.index.pods[key]; pod != nil {
		s.Pod = pod.DeepCopy()
		s.Pod.Labels, s.Pod.Annotations = marks.Labels, marks.Annotations
		if isFinished(pod) {
			outcome := populate.OutcomeOf(pod)
			s.Outcome = &outcome
		}
	}
	return s
}

// populatorWarnings are the events of populators, and of the validator of data sources, on a claim that
// is not filled.
var populatorWarnings = []string{
	"PopulatorDataSourceNotFound", "PopulatorCreationError", "PopulatorPVCPrimeCreationError",
	"PopulatorSourceNotGranted", "UnrecognizedDataSourceKind",
}

// populatorAwaited is about a claim for which the populator has a step to do: by its last event, or by its
// silence.
func (c *Cluster) populatorAwaited(claim *corev1.PersistentVolumeClaim, f Finding) Finding {
	news := append(slices.Clone(populatorWarnings), "PopulatorCreated", "PopulatorFinished")
	event := c.lastEvent(claimRef(claim), news...)
	prime := c.primeOf(claim)
	if prime != nil && event != nil && slices.Contains(populatorWarnings, event.Reason) &&
		EventTime(event).Before(prime.CreationTimestamp.Time) {
		event = nil // since then the populator has created the prime claim
	}
	if found, is := c.told(event, f); is {
		return found
	}
	ref := source.Of(claim)
	kind := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	f = f.waits(verdict.PopulatorSilent, Administrator,
		"a populator of sources of kind %s, which shows no sign of life", kind)
	if event != nil {
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	}
	switch begun := c.Now.Sub(claim.CreationTimestamp.Time) >= patience; {
	case c.lacks(Claim):
		f = f.waits(verdict.ExplainUnread, Administrator,
			"a populator of sources of kind %s; whether it has begun is not known, as claims outside of the namespace "+
				"were not read", kind)
		f.Fix = []Step{{
			Text:    "Ask an administrator to explain the claim, who may read the claims of all namespaces",
			Command: shell.Command("purser explain pvc/%s", claim.Name).In(claim.Namespace),
		}}
		return f
	case !begun:
		until := claim.CreationTimestamp.Add(patience)
		f.Actor, f.Until = Itself, &until
		f.WaitsFor = fmt.Sprintf("a populator of sources of kind %s to begin", kind)
		return f
	case prime == nil:
		f.Evidence = append(f.Evidence, Evidence{
			claimRef(claim), "prime claim " + populate.PrimeName(claim.UID), "none found",
			"one that the populator creates",
		})
	}
	f.Fix = []Step{{
		Text: "See whether the populator of the kind runs, and read its log for this claim. The kinds that are " +
			"served are in the VolumePopulators, if the cluster has them",
		Command: "kubectl get pods -A | grep -i populator",
	}}
	return f
}

// populatorVolumeForeign is about a volume that was made for a prime claim and names another claim.
func (c *Cluster) populatorVolumeForeign(s populate.Snapshot, f Finding) Finding {
	f = f.about(volumeRef(s.Volume)).waits(verdict.PopulatorVolumeForeign, Administrator,
		"the volume %s of its prime claim %s, which names another claim", s.Volume.Name, s.Prime.Name)
	f.Evidence = append(f.Evidence, Evidence{
		f.Cause, "spec.claimRef", describeClaimRef(s.Volume),
		fmt.Sprintf("%s/%s, uid %s", s.Prime.Namespace, s.Prime.Name, s.Prime.UID),
	})
	f.Fix = []Step{{
		Text:    verdict.Advice(verdict.PopulatorVolumeForeign),
		Command: shell.Command("kubectl -n %s delete pvc %s", s.Prime.Namespace, s.Prime.Name),
		Risk: "none for the claim, which has no data yet; see first whether the claim that the volume names " +
			"needs it",
	}}
	return f
}

// populatorPodFailed is about the last attempt to write the data.
func (c *Cluster) populatorPodFailed(pod *corev1.Pod, f Finding) Finding {
	message := populate.OutcomeOf(pod).Message
	if message == "" {
		message = "its pod does not say why"
	}
	f = f.about(podRef(pod)).waits(verdict.PopulatorFailed, Administrator,
		"its data, which pod %s in namespace %s could not write: %s", pod.Name, pod.Namespace,
		quote(firstLine(message)))
	f.Evidence = append(f.Evidence,
		Evidence{podRef(pod), "status.phase", string(pod.Status.Phase), "Succeeded"},
		Evidence{podRef(pod), "status, why it ended", quote(message), ""})
	f.Fix = []Step{{
		Text:    verdict.Advice(verdict.PopulatorFailed),
		Command: shell.Command("kubectl -n %s logs %s", pod.Namespace, pod.Name),
	}}
	return f
}
