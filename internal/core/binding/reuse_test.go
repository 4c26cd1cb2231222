package binding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// What becomes of a volume whose claim is gone, beyond what the reclaim policy says: 8.14, 8.15 and
// 8.17.
func TestReuse(t *testing.T) {
	sameName, anyClaim := marked(names.AnnReuse, names.ReuseSameName), marked(names.AnnReuse, names.ReuseAny)
	moved := marked(names.AnnReuse, "other/d")
	released, bound := phase(corev1.VolumeReleased), phase(corev1.VolumeBound)
	ours := marked(names.AnnBoundByController, "yes")
	gold := class("gold", "d")
	restored := claim(wants("v"), isComplete, isBound)
	decides(t, []row{
		{"8.14 offered to any claim", given(pair(nil, aVolume(forClaim("u"), bound, isKept, anyClaim)), isGone("u")), "Unbind v for any claim; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.15 to those of the name", given(pair(nil, aVolume(forClaim("u"), bound, isKept, sameName)), isGone("u")), "Unbind v; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.14 also when it is annotated later", given(pair(nil, aVolume(forClaim("u"), released, isKept, anyClaim)), claimAsked), "Unbind v for any claim; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.14 or has failed", given(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeFailed), isKept, anyClaim)), isGone("u")), "Unbind v for any claim; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.14 I3 that it is released is no proof that it may be given away", pair(nil, aVolume(forClaim("u"), released, isKept, anyClaim)), "AskAPI claim"},
		{"8.14 before it is deleted with its claim", given(pair(nil, aVolume(forClaim("u"), bound, sameName)), isGone("u")), "Unbind v; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.14 what is about to be deleted is not", pair(nil, aVolume(forClaim("u"), released, anyClaim)), "nothing: ClaimGone"},
		{"8.14 nor what is going", given(pair(nil, aVolume(forClaim("u"), bound, isKept, anyClaim, goingVolume)), isGone("u")), "SetVolumePhase v Released; nothing: ClaimGone"},
		{
			"8.14 nor what is to be scrubbed", given(pair(nil, aVolume(forClaim("u"), bound, policy(corev1.PersistentVolumeReclaimRecycle), anyClaim)), isGone("u")),
			"SetVolumePhase v Failed; Tell volume VolumeNotRecycled; nothing: ClaimGone",
		},
		{
			"8.14 a value that means nothing is said", given(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "yes"))), isGone("u")),
			"SetVolumePhase v Released; Tell volume VolumeReleased; Tell volume ReuseInvalid; nothing: ClaimGone",
		},
		{"8.14 a claim that is there keeps it", pair(restored, aVolume(forClaim("u"), bound, isKept, anyClaim)), "nothing: ClaimBound"},

		{
			"8.15 the next claim of the name has it at once, before a volume is made", given(pair(claim(ofClass("gold")), aVolume(forClaim("old"), bound, isKept, sameName)), isGone("old"), inClass(gold)),
			"ClaimVolume v; Complete claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{"8.15 also a released one", given(pair(claim(), aVolume(forClaim("old"), released, isKept, sameName)), isGone("old")), "ClaimVolume v; Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"8.15 I3 not before it is known that the former one is gone", pair(claim(), aVolume(forClaim("old"), bound, isKept, sameName)), "AskAPI claim"},
		{"8.15 I3 nor, of what is deleted with its claim, that this one is there", given(pair(claim(), aVolume(forClaim("old"), bound, sameName)), isGone("old")), "AskAPI claim"},
		{
			"8.15 one that it is too small for leaves it to the next", given(pair(claim(), aVolume(forClaim("old"), bound, isKept, sameName, sized("1Mi"))), isGone("old")),
			"Unbind v; Tell volume VolumeReused; wait: NoVolumeAndNoClass",
		},
		{
			"8.15 a volume of its own comes first", given(pair(claim(), aVolume(named("a"), forClaim("old"), released, isKept, sameName), aVolume(forClaim("u"))), isGone("old")),
			"Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; Unbind a; Tell volume VolumeReused; nothing: ClaimBound",
		},
		{
			"8.15 a claim that names it", given(pair(claim(wants("v")), aVolume(forClaim("old"), released, isKept, sameName)), isGone("old")),
			"ClaimVolume v; Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{
			"8.15 what a binding loses stays with the name", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), isKept, ours, sameName)),
			"Unbind v; nothing: ClaimBound",
		},

		{
			"8.15 also one that was made for the claim, before it is deleted", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), marked(names.AnnProvisionedBy, "d"), sameName)),
			"Unbind v; nothing: ClaimBound",
		},
		{
			"8.14 and is offered to any claim", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), marked(names.AnnProvisionedBy, "d"), anyClaim)),
			"Unbind v for any claim; nothing: ClaimBound",
		},

		{"8.25 moved to a claim elsewhere", given(pair(nil, aVolume(forClaim("u"), bound, isKept, moved)), isGone("u")), "Unbind v for other/d; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.25 before it is deleted with its claim", given(pair(nil, aVolume(forClaim("u"), bound, moved)), isGone("u")), "Unbind v for other/d; Tell volume VolumeReused; nothing: ClaimGone"},
		{"8.25 not while its claim is there", pair(restored, aVolume(forClaim("u"), bound, isKept, moved)), "nothing: ClaimBound"},
		{"8.25 and not to the next claim of the name", given(pair(claim(), aVolume(forClaim("old"), released, isKept, moved)), isGone("old")), "Unbind v for other/d; Tell volume VolumeReused; wait: NoVolumeAndNoClass"},
		{
			"8.25 where it is it stays", given(pair(claim(), aVolume(forClaim("old"), released, isKept, marked(names.AnnReuse, "ns/c"))), isGone("old")),
			"ClaimVolume v; Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{
			"8.25 a name that no claim has is said", given(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "other/D"))), isGone("u")),
			"SetVolumePhase v Released; Tell volume VolumeReleased; Tell volume ReuseInvalid; nothing: ClaimGone",
		},
		{
			"8.25 nor has any namespace", given(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "other.ns/d"))), isGone("u")),
			"SetVolumePhase v Released; Tell volume VolumeReleased; Tell volume ReuseInvalid; nothing: ClaimGone",
		},

		{"8.17 what a backup brought back is asked about", pair(restored, aVolume(forClaim("old"), phase(""), isKept, sameName)), "AskAPI claim"},
		{"8.17 and made a pair again", given(pair(restored, aVolume(forClaim("old"), phase(""), isKept, sameName)), claimAsked), "ClaimVolume v; Complete volume v; nothing: ClaimBound"},
		{"8.17 also without a uid", pair(restored, aVolume(forClaim(""), phase(""), isKept, sameName)), "ClaimVolume v; Complete volume v; nothing: ClaimBound"},
		{
			"8.17 unasked, it is not deleted before an event told", given(pair(restored, aVolume(forClaim("old"), phase(""))), claimAsked, volumesAsked),
			"SetClaimStatus Lost; wait: ClaimMisbound",
		},
		{"8.17 without the claim it is", given(pair(nil, aVolume(forClaim("old"), phase(""))), claimAsked), "SetVolumePhase v Released as seen; nothing: ClaimGone"},
		{"8.17 nor is it kept for one that does not name it", given(pair(claim(), aVolume(forClaim("old"), phase(""))), claimAsked), "SetVolumePhase v Released as seen; wait: NoVolumeAndNoClass"},
	})
}

// 8.15, I3: what a claim inherits is a previous claim's of its name, and that one is gone for certain.
func TestInherits(t *testing.T) {
	kept := func(edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return aVolume(append([]func(*corev1.PersistentVolume){isKept, marked(names.AnnReuse, names.ReuseSameName)}, edits...)...)
	}
	for _, tc := range []struct {
		name string
		s    Snapshot
		pv   *corev1.PersistentVolume
		want bool
	}{
		{"the former one is gone", given(pair(claim()), isGone("old")), kept(forClaim("old")), true},
		{"what became of it is unknown", pair(claim()), kept(forClaim("old")), false},
		{"the API server has this claim, so no other of its name", given(pair(claim()), claimAsked), kept(forClaim("old")), true},
		{"its name is all that is known", pair(claim()), kept(forClaim("")), true},
		{"it is this claim's own", given(pair(claim()), claimAsked), kept(forClaim("u")), false},
		{"it is to go to another claim", given(pair(claim()), isGone("old")), kept(forClaim("old"), marked(names.AnnReuse, "other/d")), false},
		{"it was for a claim of another name", given(pair(claim()), isGone("old")), kept(forOther), false},
		{"it has no claimRef", pair(claim()), kept(), false},
		{"no annotation says that it outlives its claim", given(pair(claim()), isGone("old")), aVolume(forClaim("old"), isKept), false},
		{"there is no claim", given(pair(nil), isGone("old")), kept(forClaim("old")), false},
	} {
		if got := tc.s.inherits(tc.pv); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// 8.14, 8.17: who reads the event knows what to type.
func TestReuseIsExplained(t *testing.T) {
	kept := given(pair(nil, aVolume(forClaim("u"), isKept)), isGone("u"))
	misbound := given(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("old"))), claimAsked, volumesAsked)
	another := given(pair(claim(wants("v"), isComplete, isBound), aVolume(forOther)), volumesAsked)
	invalid := given(pair(nil, aVolume(forClaim("u"), isKept, marked(names.AnnReuse, "yes"))), isGone("u"))
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
		t.Errorf("a claim whose volume is another's is told to take it: %q", got)
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
