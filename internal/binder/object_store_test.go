package binder

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
)

// I3, k/k#124224: a watch that was broken shows a deletion with the state from before our last
// writes. What we wrote does not bring the object back, neither what was written before the
// deletion came nor what is answered after it.
func TestDeletionAfterOurOwnWrites(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "c"}
	key := binding.Key{Claim: claim}
	old := seen(liveClaim("c", "a"), "1", "50")
	bound := old.DeepCopy()
	bound.ResourceVersion, bound.Spec.VolumeName = "100", "v"
	bound.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
	bound.Status.Phase, bound.Status.AccessModes = "Bound", bound.Spec.AccessModes
	free := seen(liveVolume("v", "a"), "v", "51")
	taken := free.DeepCopy()
	taken.ResourceVersion, taken.Status.Phase = "99", "Bound"
	taken.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: "1"}
	for _, late := range []bool{false, true} {
		for name, remove := range map[string]func(c *Controller){
			"claim":  func(c *Controller) { c.claimSeen(old, nil) },
			"volume": func(c *Controller) { c.volumeSeen(free, nil) },
		} {
			c := New(Config{})
			c.claimSeen(old, old)
			c.volumeSeen(free, free)
			wrote := func() {
				c.objectStore.wroteVolume(taken)
				c.objectStore.ownClaims.Wrote(bound)
			}
			if wrote(); len(c.restless([]binding.Key{key})) > 0 {
				t.Fatal("the pair is not bound")
			}
			if remove(c); late {
				wrote()
			}
			if len(c.restless([]binding.Key{key})) == 0 {
				t.Errorf("late %v: a %s that is gone is taken for bound", late, name)
			}
		}
	}
}

// I3: that the API server has no claim with a uid under one name says nothing of a claim that has
// it under another. A volume copied by hand refers to both.
func TestObjectStoreKnowsGoneUIDsByName(t *testing.T) {
	l := newObjectStore()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u", ResourceVersion: "1"}}
	other := types.NamespacedName{Namespace: "ns", Name: "other"}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "copy"},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "other", UID: "u"}},
	}
	l.claimSeen(keyOf(claim), claim, claim)
	l.answered(binding.Snapshot{Key: binding.Key{Claim: other}, Refs: []*corev1.PersistentVolume{volume}}, nil)
	if l.newestClaim(keyOf(claim)) == nil || l.isGone(keyOf(claim), "u") {
		t.Error("a claim that lives is taken for gone")
	}
	if !l.isGone(other, "u") {
		t.Error("what the API server said of the copy's claim is not known")
	}
}

// Pods that run have their volumes, and are not kept in mind once that is seen, in whatever order
// it is.
func TestPodsThatRunAreForgotten(t *testing.T) {
	l := newObjectStore()
	pod := podUsing("p", "c", "d")
	pod.Spec.NodeName = "n"
	seen := func() { l.podSeen(types.NamespacedName{Namespace: "default", Name: "p"}, pod) }
	has := func(claim, volume string) {
		c := liveClaim(claim, "late")
		c.Spec.VolumeName = volume
		l.claimSeen(keyOf(c), c, c)
	}
	kept := func(want int) {
		t.Helper()
		uses := 0
		for _, use := range l.uses {
			uses += len(use.claims)
		}
		if uses != want || len(l.pods) != want {
			t.Errorf("%d uses of %d claims are kept, want %d", uses, len(l.pods), want)
		}
	}
	seen()
	kept(2)
	has("c", "")
	has("d", "v")
	kept(1)
	seen()
	kept(1)
	has("c", "w")
	kept(0)
	seen()
	kept(0)
}
