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
	for _, tc := range []struct {
		name string
		s    Snapshot
		want string
	}{
		{"8.14 offered to any claim", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, anyClaim)), isGone("u")), "unbind v for any; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.15 to those of the name", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, sameName)), isGone("u")), "unbind v; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.14 also when it is annotated later", with2(pair(nil, aVolume(forClaim("u"), released, isKept, anyClaim)), claimAsked), "unbind v for any; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.14 or has failed", with2(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeFailed), isKept, anyClaim)), isGone("u")), "unbind v for any; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.14 I3 that it is released is no proof that it may be given away", pair(nil, aVolume(forClaim("u"), released, isKept, anyClaim)), "look claim"},
		{"8.14 before it is deleted with its claim", with2(pair(nil, aVolume(forClaim("u"), bound, sameName)), isGone("u")), "unbind v; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.14 what is about to be deleted is not", pair(nil, aVolume(forClaim("u"), released, anyClaim)), "nothing ClaimGone"},
		{"8.14 nor what is going", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, anyClaim, goingVolume)), isGone("u")), "v Released; nothing ClaimGone"},
		{
			"8.14 nor what is to be scrubbed", with2(pair(nil, aVolume(forClaim("u"), bound, policy(corev1.PersistentVolumeReclaimRecycle), anyClaim)), isGone("u")),
			"v Failed; tell VolumeNotRecycled of volume; nothing ClaimGone",
		},
		{
			"8.14 a value that means nothing is said", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "yes"))), isGone("u")),
			"v Released; tell VolumeReleased of volume; tell ReuseInvalid of volume; nothing ClaimGone",
		},
		{"8.14 a claim that is there keeps it", pair(restored, aVolume(forClaim("u"), bound, isKept, anyClaim)), "nothing ClaimBound"},

		{
			"8.15 the next claim of the name has it at once, before a volume is made", with2(pair(claim(ofClass("gold")), aVolume(forClaim("old"), bound, isKept, sameName)), isGone("old"), inClass(gold)),
			"W1 v; W3 v marked; W4 Bound 1Gi; nothing ClaimBound",
		},
		{"8.15 also a released one", with2(pair(claim(), aVolume(forClaim("old"), released, isKept, sameName)), isGone("old")), "W1 v; W2 v+W3 v marked; W4 Bound 1Gi; nothing ClaimBound"},
		{"8.15 I3 not before it is known that the former one is gone", pair(claim(), aVolume(forClaim("old"), bound, isKept, sameName)), "look claim"},
		{"8.15 I3 nor, of what is deleted with its claim, that this one is there", with2(pair(claim(), aVolume(forClaim("old"), bound, sameName)), isGone("old")), "look claim"},
		{
			"8.15 one that it is too small for leaves it to the next", with2(pair(claim(), aVolume(forClaim("old"), bound, isKept, sameName, sized("1Mi"))), isGone("old")),
			"unbind v; tell VolumeReused of volume; wait NoVolumeAndNoClass",
		},
		{
			"8.15 a volume of its own comes first", with2(pair(claim(), aVolume(named("a"), forClaim("old"), released, isKept, sameName), aVolume(forClaim("u"))), isGone("old")),
			"W2 v+W3 v marked; W4 Bound 1Gi; unbind a; tell VolumeReused of volume; nothing ClaimBound",
		},
		{
			"8.15 a claim that names it", with2(pair(claim(wants("v")), aVolume(forClaim("old"), released, isKept, sameName)), isGone("old")),
			"W1 v; W2 v+W3 v; W4 Bound 1Gi; nothing ClaimBound",
		},
		{
			"8.15 what a binding loses stays with the name", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), isKept, ours, sameName)),
			"unbind v; nothing ClaimBound",
		},

		{
			"8.15 also one that was made for the claim, before it is deleted", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), marked(names.AnnProvisionedBy, "d"), sameName)),
			"unbind v; nothing ClaimBound",
		},
		{
			"8.14 and is offered to any claim", pair(claim(wants("w"), isComplete, isBound), aVolume(named("w"), forClaim("u"), bound), aVolume(forClaim("u"), marked(names.AnnProvisionedBy, "d"), anyClaim)),
			"unbind v for any; nothing ClaimBound",
		},

		{"8.25 moved to a claim elsewhere", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, moved)), isGone("u")), "unbind v for other/d; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.25 before it is deleted with its claim", with2(pair(nil, aVolume(forClaim("u"), bound, moved)), isGone("u")), "unbind v for other/d; tell VolumeReused of volume; nothing ClaimGone"},
		{"8.25 not while its claim is there", pair(restored, aVolume(forClaim("u"), bound, isKept, moved)), "nothing ClaimBound"},
		{"8.25 and not to the next claim of the name", with2(pair(claim(), aVolume(forClaim("old"), released, isKept, moved)), isGone("old")), "unbind v for other/d; tell VolumeReused of volume; wait NoVolumeAndNoClass"},
		{
			"8.25 where it is it stays", with2(pair(claim(), aVolume(forClaim("old"), released, isKept, marked(names.AnnReuse, "ns/c"))), isGone("old")),
			"W1 v; W2 v+W3 v marked; W4 Bound 1Gi; nothing ClaimBound",
		},
		{
			"8.25 a name that no claim has is said", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "other/D"))), isGone("u")),
			"v Released; tell VolumeReleased of volume; tell ReuseInvalid of volume; nothing ClaimGone",
		},
		{
			"8.25 nor has any namespace", with2(pair(nil, aVolume(forClaim("u"), bound, isKept, marked(names.AnnReuse, "other.ns/d"))), isGone("u")),
			"v Released; tell VolumeReleased of volume; tell ReuseInvalid of volume; nothing ClaimGone",
		},

		{"8.17 what a backup brought back is asked about", pair(restored, aVolume(forClaim("old"), phase(""), isKept, sameName)), "look claim"},
		{"8.17 and made a pair again", with2(pair(restored, aVolume(forClaim("old"), phase(""), isKept, sameName)), claimAsked), "W1 v; W2 v; nothing ClaimBound"},
		{"8.17 also without a uid", pair(restored, aVolume(forClaim(""), phase(""), isKept, sameName)), "W1 v; W2 v; nothing ClaimBound"},
		{
			"8.17 unasked, it is not deleted before an event told", with2(pair(restored, aVolume(forClaim("old"), phase(""))), claimAsked, volumesAsked),
			"claim Lost; wait ClaimMisbound",
		},
		{"8.17 without the claim it is", with2(pair(nil, aVolume(forClaim("old"), phase(""))), claimAsked), "v Released; nothing ClaimGone"},
		{"8.17 nor is it kept for one that does not name it", with2(pair(claim(), aVolume(forClaim("old"), phase(""))), claimAsked), "v Released; wait NoVolumeAndNoClass"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := show(Decide(tc.s)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// 8.15, I3: what a claim inherits is a former claim's of its name, and that one is gone for certain.
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
		{"the former one is gone", with2(pair(claim()), isGone("old")), kept(forClaim("old")), true},
		{"what became of it is unknown", pair(claim()), kept(forClaim("old")), false},
		{"the API server has this claim, so no other of its name", with2(pair(claim()), claimAsked), kept(forClaim("old")), true},
		{"its name is all that is known", pair(claim()), kept(forClaim("")), true},
		{"it is this claim's own", with2(pair(claim()), claimAsked), kept(forClaim("u")), false},
		{"it is to go to another claim", with2(pair(claim()), isGone("old")), kept(forClaim("old"), marked(names.AnnReuse, "other/d")), false},
		{"it was for a claim of another name", with2(pair(claim()), isGone("old")), kept(forOther), false},
		{"it has no claimRef", pair(claim()), kept(), false},
		{"no annotation says that it outlives its claim", with2(pair(claim()), isGone("old")), aVolume(forClaim("old"), isKept), false},
		{"there is no claim", with2(pair(nil), isGone("old")), kept(forClaim("old")), false},
	} {
		if got := tc.s.inherits(tc.pv); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// 8.14, 8.17: who reads the event knows what to type.
func TestReuseIsExplained(t *testing.T) {
	kept := with2(pair(nil, aVolume(forClaim("u"), isKept)), isGone("u"))
	misbound := with2(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("old"))), claimAsked, volumesAsked)
	another := with2(pair(claim(wants("v"), isComplete, isBound), aVolume(forOther)), volumesAsked)
	invalid := with2(pair(nil, aVolume(forClaim("u"), isKept, marked(names.AnnReuse, "yes"))), isGone("u"))
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
