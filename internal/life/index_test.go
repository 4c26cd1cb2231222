package life

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// An index that was revised has the answers of one of the same changes that was not.
func TestRevise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index, all := NewIndex(nil), []Change(nil)
		for range rapid.IntRange(1, 6).Draw(t, "times") {
			from := rapid.IntRange(max(0, len(all)-4), len(all)).Draw(t, "from")
			var later []Change
			for range rapid.IntRange(0, 5).Draw(t, "changes") {
				later = append(later, drawnVersion(t))
			}
			before := index.revision
			if from < len(all) && from > 0 {
				before++
			}
			all = append(all[:from:from], later...)
			index.Revise(from, later)
			if index.revision < before {
				t.Fatal("numbers of changes have changed, and the revision has not")
			}
		}
		want, got := answersOf(NewIndex(all)), answersOf(index)
		if want != got {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// drawnVersion is a version of one of a few claims, volumes, pods and events that name each other.
func drawnVersion(t *rapid.T) Change {
	draw := func(what string, most int) string { return fmt.Sprint(rapid.IntRange(0, most).Draw(t, what)) }
	meta := metav1.ObjectMeta{Name: draw("name", 2), UID: types.UID(draw("uid", 1))}
	c := Change{Deleted: rapid.Bool().Draw(t, "deleted")}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		c.Kind, c.Object = explain.Claim, &corev1.PersistentVolumeClaim{ObjectMeta: meta}
	case 1:
		pv := &corev1.PersistentVolume{ObjectMeta: meta}
		if name := draw("claim", 3); name != "3" {
			pv.Spec.ClaimRef = &corev1.ObjectReference{Name: name}
		}
		c.Kind, c.Object = explain.Volume, pv
	case 2:
		pod := &corev1.Pod{ObjectMeta: meta}
		for _, name := range []string{draw("first", 2), draw("second", 2)} {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
		c.Kind, c.Object = explain.Pod, pod
	default:
		kind := []string{"PersistentVolumeClaim", "Node"}[rapid.IntRange(0, 1).Draw(t, "about")]
		c.Kind = explain.Event
		c.Object = &corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "0"}}
	}
	return c
}

// answersOf returns what an index says of each object, and of each time.
func answersOf(x *Index) string {
	var text strings.Builder
	for n := range len(x.changes) + 1 {
		x.All().Each(n, func(o metav1.Object) { fmt.Fprintf(&text, "%d: %T %s %s\n", n, o, o.GetName(), o.GetUID()) })
	}
	for _, kind := range []explain.Kind{explain.Claim, explain.Volume, explain.Pod, explain.Event} {
		for _, name := range []string{"0", "1", "2"} {
			ref := explain.Ref{Kind: kind, Name: name}
			newest := x.named(ref)
			fmt.Fprintln(&text, ref, x.Last(ref), newest.uid, x.versions(newest), x.last(newest) != nil, x.events[ref])
		}
	}
	for _, by := range []relationKind{volumesOfClaim, unclaimedVolumes, podsOfClaim, otherEvents} {
		for _, name := range []string{"", "0", "1", "2"} {
			of := relation{by, "", name}
			among := x.identities(x.relatives(by, "", name), func(c Change) bool {
				return slices.Contains(relationsOf(c.Object), of)
			})
			fmt.Fprintln(&text, by, name, among)
		}
	}
	return text.String()
}
