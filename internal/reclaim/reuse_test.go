package reclaim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// 8.14: beside another PV controller a volume with purser/reuse is released with its claim. It is kept
// with an event, also when an invalid value is corrected, and deleted when the annotation is removed.
func TestVolumeIsKeptForReuseUntilTheAnnotationIsRemoved(t *testing.T) {
	r := newRig(nil, releasedVolume(func(pv *corev1.PersistentVolume) { pv.Annotations[names.AnnReuse] = "bogus" }))
	for _, step := range []struct {
		set, event string
		deleted    int
	}{
		{"bogus", `Warning ReuseInvalid the volume is not deleted: annotation purser/reuse: "bogus"`, 0},
		{"any", `Warning ReuseKept the volume is not deleted: annotation purser/reuse is "any". ` +
			`To delete the volume, remove the annotation: kubectl annotate pv pv purser/reuse-`, 0},
		{"", `annotation purser/reuse: "" is neither`, 0},
		{"remove", "", 1},
	} {
		pv := &corev1.PersistentVolume{}
		if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, pv); err != nil {
			t.Fatal(err)
		}
		if pv.Annotations[names.AnnReuse] = step.set; step.set == "remove" {
			delete(pv.Annotations, names.AnnReuse)
		}
		if err := r.api.Update(t.Context(), pv); err != nil {
			t.Fatal(err)
		}
		r.sees(pv)
		again := r.run(t)
		if (again == 0) != (step.deleted > 0) || len(r.driver.deleted) != step.deleted {
			t.Errorf("%s: again in %s, DeleteVolume was called %d times", step.set, again, len(r.driver.deleted))
		}
		if step.event != "" && !strings.Contains(strings.Join(r.events, "\n"), step.event) {
			t.Errorf("%s: events %q, want %q", step.set, r.events, step.event)
		}
	}
}
