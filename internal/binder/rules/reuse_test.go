package binding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// What becomes of a volume whose claim is gone, beyond what the reclaim policy says: 8.14, 8.15 and
// 8.17.
func TestReuse(t *testing.T) {
	sameName, anyClaim := reusableBy(names.ReuseSameName), reusableBy(names.ReuseAny)
	moved := reusableBy("other/d")
	gold := class("gold", "d")
	restored := boundClaim("v")
	decides(t, []row{
		{
			"8.14 offered to any claim",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, anyClaim)).with(sawDeletion("u")),
			steps(clearsClaimRef("v"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.15 to those of the name",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, sameName)).with(sawDeletion("u")),
			steps(clearsClaimUID("v"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.14 also when it is annotated later",
			cluster(nil, aVolume(claimRef("u"), volumeReleased, retained, anyClaim)).with(claimReadLive),
			steps(clearsClaimRef("v"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.14 or has failed",
			cluster(nil, aVolume(claimRef("u"), volumeFailed, retained, anyClaim)).with(sawDeletion("u")),
			steps(clearsClaimRef("v"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.14 I3 that it is released is no proof that it may be given away",
			cluster(nil, aVolume(claimRef("u"), volumeReleased, retained, anyClaim)),
			readsLive("claim"),
		},
		{
			"8.14 before it is deleted with its claim",
			cluster(nil, aVolume(claimRef("u"), volumeBound, sameName)).with(sawDeletion("u")),
			steps(clearsClaimUID("v"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.14 what is about to be deleted is not",
			cluster(nil, aVolume(claimRef("u"), volumeReleased, anyClaim)),
			ends(verdict.ClaimGone),
		},
		{
			"8.14 nor what is going",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, anyClaim, volumeTerminating)).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased), ends(verdict.ClaimGone)),
		},
		{
			"8.14 nor what is to be scrubbed",
			cluster(nil,
				aVolume(claimRef("u"), volumeBound, reclaimPolicy(corev1.PersistentVolumeReclaimRecycle), anyClaim)).with(
				sawDeletion("u"),
			),
			steps(setsPhase("v", corev1.VolumeFailed), emitsOnVolume(verdict.VolumeNotRecycled), ends(verdict.ClaimGone)),
		},
		{
			"8.14 a value that means nothing is said",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, reusableBy("yes"))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased), emitsOnVolume(verdict.VolumeReleased),
				emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},
		{
			"8.14 and the volume is not deleted with its claim",
			cluster(nil, aVolume(claimRef("u"), volumeBound, reusableBy("bogus"))).with(sawDeletion("u")),
			steps(emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},
		{
			"8.14 nor is one with a misspelt name of the annotation",
			cluster(nil, aVolume(claimRef("u"), volumeBound, volumeAnnotation("purser/reuze", "any"))).with(sawDeletion("u")),
			steps(emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},
		{
			"8.14 it is said while the claim exists",
			cluster(boundClaim("v"), aVolume(claimRef("u"), volumeBound, reusableBy("bogus"))),
			steps(emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimBound)),
		},
		{
			"8.14 nor is one of which the claim has another by now",
			cluster(boundClaim("w"), aVolume(named("w"), claimRef("u"), volumeBound),
				aVolume(claimRef("u"), provisionedBy("d"), reusableBy("bogus"))),
			steps(emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimBound)),
		},
		{
			"8.14 an empty value, such as of an unset shell variable, keeps it too",
			cluster(nil, aVolume(claimRef("u"), volumeBound, reusableBy(""))).with(sawDeletion("u")),
			steps(emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},
		{
			"8.14 on a claim it has no effect, and an event says so",
			cluster(boundClaim("v", claimAnnotation(names.AnnReuse, names.ReuseAny)), aVolume(claimRef("u"), volumeBound)),
			steps(emitsOnClaim(verdict.ReuseInvalid), ends(verdict.ClaimBound)),
		},
		{
			"8.14 also on one that waits",
			cluster(claim(claimAnnotation(names.AnnReuse, ""))),
			steps(emitsOnClaim(verdict.ReuseInvalid), waits(verdict.NoVolumeAndNoClass)),
		},
		{
			"8.14 a claim that is there keeps it",
			cluster(restored, aVolume(claimRef("u"), volumeBound, retained, anyClaim)),
			ends(verdict.ClaimBound),
		},

		{
			"8.15 the next claim of the name has it at once, before a volume is made",
			cluster(claim(className("gold")), aVolume(claimRef("old"), volumeBound, retained, sameName)).
				with(sawDeletion("old"), storageClass(gold)),
			steps(setsClaimRef("v"), bindsClaim("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"8.15 also a released one",
			cluster(claim(), aVolume(claimRef("old"), volumeReleased, retained, sameName)).with(sawDeletion("old")),
			steps(setsClaimRef("v"), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"8.15 I3 not before it is known that the previous one is gone",
			cluster(claim(), aVolume(claimRef("old"), volumeBound, retained, sameName)),
			readsLive("claim"),
		},
		{
			"8.15 I3 nor, of what is deleted with its claim, that this one is there",
			cluster(claim(), aVolume(claimRef("old"), volumeBound, sameName)).with(sawDeletion("old")),
			readsLive("claim"),
		},
		{
			"8.15 one that it is too small for leaves it to the next",
			cluster(claim(), aVolume(claimRef("old"), volumeBound, retained, sameName, capacity("1Mi"))).
				with(sawDeletion("old")),
			steps(clearsClaimUID("v"), emitsOnVolume(verdict.VolumeReused), waits(verdict.NoVolumeAndNoClass)),
		},
		{
			"8.15 a volume of its own comes first",
			cluster(claim(), aVolume(named("a"), claimRef("old"), volumeReleased, retained, sameName),
				aVolume(claimRef("u"))).with(sawDeletion("old")),
			steps(bindsBoth("v", ours), setsClaimBound("1Gi"), clearsClaimUID("a"), emitsOnVolume(verdict.VolumeReused),
				ends(verdict.ClaimBound)),
		},
		{
			"8.15 a claim that names it",
			cluster(claim(namesVolume("v")), aVolume(claimRef("old"), volumeReleased, retained, sameName)).
				with(sawDeletion("old")),
			steps(setsClaimRef("v"), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"8.15 what a binding loses stays with the name",
			cluster(boundClaim("w"), aVolume(named("w"), claimRef("u"), volumeBound),
				aVolume(claimRef("u"), retained, boundByUs, sameName)),
			steps(clearsClaimUID("v"), ends(verdict.ClaimBound)),
		},

		{
			"8.15 also one that was made for the claim, before it is deleted",
			cluster(boundClaim("w"), aVolume(named("w"), claimRef("u"), volumeBound),
				aVolume(claimRef("u"), provisionedBy("d"), sameName)),
			steps(clearsClaimUID("v"), ends(verdict.ClaimBound)),
		},
		{
			"8.14 and is offered to any claim",
			cluster(boundClaim("w"), aVolume(named("w"), claimRef("u"), volumeBound),
				aVolume(claimRef("u"), provisionedBy("d"), anyClaim)),
			steps(clearsClaimRef("v"), ends(verdict.ClaimBound)),
		},

		{
			"8.25 moved to a claim elsewhere",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, moved)).with(sawDeletion("u")),
			steps(movesVolume("v", "other/d"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.25 before it is deleted with its claim",
			cluster(nil, aVolume(claimRef("u"), volumeBound, moved)).with(sawDeletion("u")),
			steps(movesVolume("v", "other/d"), emitsOnVolume(verdict.VolumeReused), ends(verdict.ClaimGone)),
		},
		{
			"8.25 not while its claim is there",
			cluster(restored, aVolume(claimRef("u"), volumeBound, retained, moved)),
			ends(verdict.ClaimBound),
		},
		{
			"8.25 and not to the next claim of the name",
			cluster(claim(), aVolume(claimRef("old"), volumeReleased, retained, moved)).with(sawDeletion("old")),
			steps(movesVolume("v", "other/d"), emitsOnVolume(verdict.VolumeReused), waits(verdict.NoVolumeAndNoClass)),
		},
		{
			"8.25 where it is it stays",
			cluster(claim(), aVolume(claimRef("old"), volumeReleased, retained, reusableBy("ns/c"))).with(sawDeletion("old")),
			steps(setsClaimRef("v"), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"8.25 a name that no claim has is said",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, reusableBy("other/D"))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased), emitsOnVolume(verdict.VolumeReleased),
				emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},
		{
			"8.25 nor has any namespace",
			cluster(nil, aVolume(claimRef("u"), volumeBound, retained, reusableBy("other.ns/d"))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased), emitsOnVolume(verdict.VolumeReleased),
				emitsOnVolume(verdict.ReuseInvalid), ends(verdict.ClaimGone)),
		},

		{
			"8.17 what a backup brought back is asked about",
			cluster(restored, aVolume(claimRef("old"), phase(""), retained, sameName)),
			readsLive("claim"),
		},
		{
			"8.17 and made a pair again",
			cluster(restored, aVolume(claimRef("old"), phase(""), retained, sameName)).with(claimReadLive),
			steps(setsClaimRef("v"), bindsVolume("v"), ends(verdict.ClaimBound)),
		},
		{
			"8.17 also without a uid",
			cluster(restored, aVolume(claimRef(""), phase(""), retained, sameName)),
			steps(setsClaimRef("v"), bindsVolume("v"), ends(verdict.ClaimBound)),
		},
		{
			"8.17 unasked, it is not deleted before an event told",
			cluster(restored, aVolume(claimRef("old"), phase(""))).with(claimReadLive, volumesReadLive),
			steps(setsClaimLost(), waits(verdict.ClaimMisbound)),
		},
		{
			"8.17 without the claim it is",
			cluster(nil, aVolume(claimRef("old"), phase(""))).with(claimReadLive),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimGone)),
		},
		{
			"8.17 nor is it kept for one that does not name it",
			cluster(claim(), aVolume(claimRef("old"), phase(""))).with(claimReadLive),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), waits(verdict.NoVolumeAndNoClass)),
		},
	})
}

// 8.15, I3: what a claim inherits is a previous claim's of its name, and that one is gone for certain.
func TestInherits(t *testing.T) {
	kept := func(edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return aVolume(append([]func(*corev1.PersistentVolume){retained, reusableBy(names.ReuseSameName)}, edits...)...)
	}
	for _, tc := range []struct {
		name string
		s    Snapshot
		pv   *corev1.PersistentVolume
		want bool
	}{
		{"the previous one is gone", cluster(claim()).with(sawDeletion("old")), kept(claimRef("old")), true},
		{"what became of it is unknown", cluster(claim()), kept(claimRef("old")), false},
		{
			"the API server has this claim, so no other of its name",
			cluster(claim()).with(claimReadLive),
			kept(claimRef("old")),
			true,
		},
		{"its name is all that is known", cluster(claim()), kept(claimRef("")), true},
		{"it is this claim's own", cluster(claim()).with(claimReadLive), kept(claimRef("u")), false},
		{
			"it is to go to another claim",
			cluster(claim()).with(sawDeletion("old")),
			kept(claimRef("old"), reusableBy("other/d")),
			false,
		},
		{"it was for a claim of another name", cluster(claim()).with(sawDeletion("old")), kept(claimRefToOther), false},
		{"it has no claimRef", cluster(claim()), kept(), false},
		{
			"no annotation says that it outlives its claim",
			cluster(claim()).with(sawDeletion("old")),
			aVolume(claimRef("old"), retained),
			false,
		},
		{"there is no claim", cluster(nil).with(sawDeletion("old")), kept(claimRef("old")), false},
	} {
		if got := tc.s.inherits(tc.pv); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// 8.14, 8.17: who reads the event knows what to type.
func TestReuseIsExplained(t *testing.T) {
	kept := cluster(nil, aVolume(claimRef("u"), retained)).with(sawDeletion("u"))
	misbound := cluster(boundClaim("v"), aVolume(claimRef("old"))).with(claimReadLive, volumesReadLive)
	another := cluster(boundClaim("v"), aVolume(claimRefToOther)).with(volumesReadLive)
	invalid := cluster(nil, aVolume(claimRef("u"), retained, reusableBy("yes"))).with(sawDeletion("u"))
	for reason, tc := range map[verdict.Reason]struct {
		s    Snapshot
		want string
	}{
		verdict.VolumeReleased: {kept, "kubectl annotate pv v purser/reuse=any"},
		verdict.ClaimMisbound:  {misbound, `kubectl patch pv v -p '{"spec":{"claimRef":{"uid":"u"}}}'`},
		verdict.ReuseInvalid:   {invalid, `purser/reuse: "yes" is neither "same-name" nor "any"`},
	} {
		if got := told(Decide(tc.s), reason); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q in it", reason, got, tc.want)
		}
	}
	if got := told(Decide(another), verdict.ClaimMisbound); strings.Contains(got, "kubectl") {
		t.Errorf("the event tells the user to give a claim a volume that is another claim's: %q", got)
	}
}

// told is what a verdict says under a reason, in an action or at its end.
func told(v Verdict, reason verdict.Reason) string {
	todo, ok := v.(do)
	if !ok {
		if v.Because().Reason == reason {
			return v.Because().Message
		}
		return ""
	}
	for _, a := range todo.Actions {
		if tell, ok := a.(Tell); ok && tell.Finding.Reason == reason {
			return tell.Finding.Message
		}
	}
	return told(todo.Then, reason)
}
