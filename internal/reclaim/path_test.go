package reclaim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	corereclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// D-1: a volume is enqueued by its name whenever it changes and may need an action. A deleted
// volume leaves no state behind, not even its number of failures.
func TestVolumesAreEnqueued(t *testing.T) {
	for _, tc := range []struct {
		row  string
		pv   *corev1.PersistentVolume
		want []string
	}{
		{"D-1 released", releasedVolume(), []string{"pv"}},
		{"D-1 D-32 kept: its policy may change", releasedVolume(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), []string{"pv"}},
		{"D-1 bound without our finalizer", releasedVolume(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }), []string{"pv"}},
		{"D-1 bound with it", releasedVolume(phase(corev1.VolumeBound)), nil},
		{"D-1 another driver's", releasedVolume(func(pv *corev1.PersistentVolume) { pv.Annotations[names.AnnProvisionedBy] = "other" }), nil},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(nil)
			if got := r.fromVolume(t.Context(), tc.pv); !slices.Equal(got, tc.want) {
				t.Errorf("enqueued %q, want %q", got, tc.want)
			}
		})
	}
}

// D-1, C-3: a failure is tried again for ever, with growing delays, and forgotten with the volume.
func TestFailedDeletionIsTriedAgain(t *testing.T) {
	r := newRig(nil, releasedVolume())
	r.driver.fail = errors.New("the array is rebooting")
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if again := r.run(t); again != want {
			t.Errorf("D-1: again in %s, want %s", again, want)
		}
	}
	pv := releasedVolume()
	pv.Finalizers = nil
	if err := r.api.Patch(t.Context(), releasedVolume(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := r.api.Delete(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	if again := r.run(t); again != 0 || r.retries.Get("pv").Failed != 0 {
		t.Errorf("D-1: again in %s, %d failures remembered of a volume that is gone", again, r.retries.Get("pv").Failed)
	}
}

// C-114: a deletion that is tried again, and one that does not follow upon the release at once, go
// by the volume as it is: an administrator saved it meanwhile, and the cache is stale.
func TestDeletedAsItIs(t *testing.T) {
	longAgo := &metav1.Time{Time: now.Add(-time.Minute)}
	changes := []struct {
		row, patch string
		deleted    int
	}{
		{"nothing changed", `{}`, 1},
		{"its policy is Retain", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`, 0},
		{"available", `{"spec":{"claimRef":null},"status":{"phase":"Available"}}`, 0},
		{"another claim has it", `{"spec":{"claimRef":{"uid":"other"}},"status":{"phase":"Bound"}}`, 0},
		{"created again", `{"metadata":{"uid":"v"}}`, 0},
	}
	for name, when := range map[string]struct {
		finalizersRemoved *metav1.Time
		fails             error // the first attempt
	}{
		"again": {&metav1.Time{Time: now}, errors.New("the array is rebooting")}, "late": {longAgo, nil}, "when is not known": {nil, nil},
	} {
		for _, c := range changes {
			t.Run(name+", "+c.row, func(t *testing.T) {
				pv := releasedVolume(func(pv *corev1.PersistentVolume) { pv.Status.LastPhaseTransitionTime = when.finalizersRemoved })
				r := newRig(nil, pv)
				r.Cached = over(heldUp{r.Cached, pv})
				if r.driver.fail = when.fails; when.fails != nil {
					r.run(t)
				}
				patch := client.RawPatch(types.MergePatchType, []byte(c.patch))
				if err := errors.Join(r.api.Patch(t.Context(), pv.DeepCopy(), patch), r.api.Status().Patch(t.Context(), pv.DeepCopy(), patch)); err != nil {
					t.Fatal(err)
				}
				r.driver.deleted = nil
				r.run(t)
				if len(r.driver.deleted) != c.deleted {
					t.Errorf("%d calls of DeleteVolume, want %d", len(r.driver.deleted), c.deleted)
				}
			})
		}
	}
}

// heldUp is a cache that gets no news of its volume.
type heldUp struct {
	client.Reader
	pv *corev1.PersistentVolume
}

func (h heldUp) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if pv, ok := into.(*corev1.PersistentVolume); ok {
		h.pv.DeepCopyInto(pv)
		return nil
	}
	return h.Reader.Get(ctx, key, into, options...)
}

// D-18, D-19: an object that is gone already is what was wanted, at either of the two writes: no
// failure, no second DeleteVolume.
func TestObjectIsGoneAlready(t *testing.T) {
	r := newRig(nil)
	pv := releasedVolume()
	for _, action := range []corereclaim.Action{corereclaim.DeleteObject{Volume: pv}, corereclaim.RemoveFinalizers{Volume: pv, Names: []string{names.FinalizerVolume}}} {
		if v, err := r.Apply(t.Context(), corereclaim.Snapshot{Name: "pv", Volume: pv}, action); v != nil || err != nil {
			t.Errorf("%T: %v, %v", action, v, err)
		}
	}
	if len(r.driver.deleted) > 0 {
		t.Error("DeleteVolume was called")
	}
}

// D-18: an object that is being deleted is not deleted again; D-19: its finalizer is what is left
// to drop.
func TestObjectIsBeingDeleted(t *testing.T) {
	r := newRig(nil, releasedVolume(func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = new(metav1.Now()) }))
	if again := r.run(t); again != 0 || !slices.Equal(r.writes, []string{"PATCH pv"}) || len(r.driver.deleted) != 1 {
		t.Errorf("wrote %q, called %d times, again in %s", r.writes, len(r.driver.deleted), again)
	}
}

// exact notes which object a deletion is bound to.
type exact struct {
	client.Writer
	uid types.UID
}

func (e *exact) Delete(_ context.Context, _ client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	if o.ApplyOptions(opts); o.Preconditions != nil && o.Preconditions.UID != nil {
		e.uid = *o.Preconditions.UID
	}
	return nil
}

// D-18: what is deleted is this object, and not another one of its name.
func TestDeletionIsBoundToTheUID(t *testing.T) {
	r := newRig(nil)
	e := &exact{}
	r.Writer = e
	if _, err := r.Apply(t.Context(), corereclaim.Snapshot{}, corereclaim.DeleteObject{Volume: releasedVolume()}); err != nil || e.uid != "u" {
		t.Errorf("D-18: bound to %q, %v", e.uid, err)
	}
}
