package binder

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The indexes of references agree with a scan of all objects, whatever the order of the events.
func TestLinks(t *testing.T) {
	volumes, claims := []string{"", "v", "w", "x"}, []string{"", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		l := newObjectStore()
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			volume, claim := rapid.SampledFrom(volumes[1:]).Draw(t, "volume"), rapid.SampledFrom(claims[1:]).Draw(t, "claim")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				l.putVolume(volume, nil)
			case 1:
				l.putClaim(named(claim), nil)
			case 2:
				pv := &corev1.PersistentVolume{}
				if ref := rapid.SampledFrom(claims).Draw(t, "ref"); ref != "" {
					pv.Spec.ClaimRef = &corev1.ObjectReference{Name: ref}
				}
				l.putVolume(volume, pv)
			case 3:
				c := &corev1.PersistentVolumeClaim{}
				c.Spec.VolumeName = rapid.SampledFrom(volumes).Draw(t, "name")
				l.putClaim(named(claim), c)
			}
			compareLinks(t, l, volumes[1:], claims[1:])
		}
	})
}

func named(claim string) types.NamespacedName { return types.NamespacedName{Name: claim} }

func compareLinks(t *rapid.T, l *objectStore, volumes, claims []string) {
	for _, claim := range claims {
		found := slices.Sorted(slices.Values(l.referring(named(claim))))
		want := slices.DeleteFunc(slices.Clone(volumes), func(v string) bool {
			ref, ok := refOf(l.volumes[v])
			return !ok || ref.Name != claim
		})
		if !slices.Equal(found, want) {
			t.Fatalf("%q name %s, and %q are found", want, claim, found)
		}
	}
	for _, volume := range volumes {
		for _, claim := range claims {
			key := named(claim)
			names := volumeNameOf(l.claims[key]) == volume
			if listed := slices.Contains(l.names[volume], key); listed != (names && !l.paired(key, volume)) {
				t.Fatalf("claim %s names volume %s: %v; listed: %v; paired: %v", claim, volume, names, listed, l.paired(key, volume))
			}
		}
	}
	for key, list := range l.refs {
		if len(list) == 0 {
			t.Fatalf("an empty list is kept for %s", key)
		}
	}
}
