package reclaim

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// I3, D-30: a released volume whose deletion failed was given to another claim. It belongs to that
// claim, although its phase is still Released until a binder writes it. When that claim is deleted
// too, the volume is deleted without a further write to it.
func TestReleasedAndGivenToAnotherClaim(t *testing.T) {
	r := newRig(nil, releasedVolume())
	r.driver.fail = errors.New("the array is rebooting")
	if r.run(t) == 0 {
		t.Fatal("not tried again")
	}
	b := claim("other")
	b.Name = "b"
	given := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claimRef":{"name":"b","uid":"other"}}}`))
	if err := errors.Join(r.api.Create(t.Context(), b), r.api.Patch(t.Context(), releasedVolume(), given)); err != nil {
		t.Fatal(err)
	}
	r.driver.fail, r.driver.deleted = nil, nil
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 {
		t.Errorf("again in %s, called %d times under claim b", again, len(r.driver.deleted))
	}
	if got := r.fromClaim(t.Context(), b); !slices.Equal(got, []string{"pv"}) {
		t.Errorf("the end of claim b enqueues %q", got)
	}
	if err := r.api.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	r.showsChange(t)
	r.Settings.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	if r.run(t); len(r.driver.deleted) != 1 {
		t.Errorf("called %d times when claim b is gone", len(r.driver.deleted))
	}
}

// I3: a process that did not observe the release reads the claim live, however recent it is.
func TestReleaseNotObserved(t *testing.T) {
	given := releasedVolume()
	given.Spec.ClaimRef.UID = "b"
	for _, tc := range []struct {
		row  string
		sees *corev1.PersistentVolume // become Released
		is   *corev1.PersistentVolume
		uid  string // of the claim that there is; empty for none
		want int
	}{
		{"never seen, and its claim is there", nil, releasedVolume(), "c", 0},
		{"never seen, and its claim is gone", nil, releasedVolume(), "", 1},
		{"never seen, and another claim has the name", nil, releasedVolume(), "other", 1},
		{"seen, and given to a claim since", releasedVolume(), given, "b", 0},
		{"seen before it was created again", releasedVolume(func(pv *corev1.PersistentVolume) { pv.UID = "former" }), releasedVolume(), "c", 0},
	} {
		t.Run(tc.row, func(t *testing.T) {
			objects := []client.Object{tc.is}
			if tc.uid != "" {
				c := claim("c")
				c.UID = types.UID(tc.uid)
				objects = append(objects, c)
			}
			r := newRig(nil, objects...)
			r.memory.forget(tc.is.UID)
			if tc.sees != nil {
				r.sees(tc.sees)
			}
			if r.run(t); len(r.driver.deleted) != tc.want || !slices.Equal(r.reads, []string{"/pv", "crew/logbook", "all", "/pv", "crew/logbook"}[:2+3*tc.want]) {
				t.Errorf("called %d times, read %q", len(r.driver.deleted), r.reads)
			}
		})
	}
}

// The end of the claim may be handled between the cache and the handlers of the volume's events: it
// costs no read, and the event that follows decides.
func TestReleaseInTheCacheBeforeItsEvent(t *testing.T) {
	r := newRig(nil, releasedVolume())
	pv := releasedVolume()
	r.memory.forget(pv.UID)
	pv.Labels = map[string]string{"any": "change"}
	if err := r.api.Update(t.Context(), pv); err != nil { // a newer version than the watch has shown
		t.Fatal(err)
	}
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 || len(r.reads) > 0 {
		t.Errorf("before the event: again in %s, called %d times, read %q", again, len(r.driver.deleted), r.reads)
	}
	r.showsChange(t)
	if r.run(t); len(r.driver.deleted) != 1 || len(r.reads) > 0 {
		t.Errorf("after the event: called %d times, read %q", len(r.driver.deleted), r.reads)
	}
}

// I3: the end of a claim that no watch has shown enqueues nothing, so it is asked for again.
func TestClaimNotInTheCache(t *testing.T) {
	for shown, want := range map[bool]time.Duration{true: 0, false: 20 * time.Second} {
		pv := releasedVolume(phase(corev1.VolumeFailed))
		r := newRig(nil, pv, claim("c"))
		if !shown {
			r.Cached = over(newRig(nil, pv, claim("other")).api)
		}
		if again := r.run(t); again != want || len(r.driver.deleted) > 0 {
			t.Errorf("shown %t: again in %s, called %d times", shown, again, len(r.driver.deleted))
		}
	}
}

// D-37: what memory says of a volume with the same handle is not enough to delete under it.
func TestSameHandleIsReadLive(t *testing.T) {
	other := releasedVolume(func(pv *corev1.PersistentVolume) {
		pv.Name, pv.UID, pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = "same-handle", "v", "b", "b"
	})
	b := claim("c")
	b.Name, b.UID, b.Spec.VolumeName = "b", "b", "same-handle"
	for _, tc := range []struct {
		row   string
		is    func(*corev1.PersistentVolume) // the other, which memory has as released
		claim client.Object
		want  int
	}{
		{"released as well", func(*corev1.PersistentVolume) {}, nil, 1},
		{"kept meanwhile", func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, nil, 0},
		{"given to a claim meanwhile", func(*corev1.PersistentVolume) {}, b, 0},
		{"D-35 failed, and its claim is gone", phase(corev1.VolumeFailed), nil, 1},
		{"gone meanwhile", nil, nil, 1},
		{"another volume under its name", func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI.VolumeHandle, pv.Spec.PersistentVolumeReclaimPolicy = "another", corev1.PersistentVolumeReclaimRetain
		}, nil, 1},
	} {
		t.Run(tc.row, func(t *testing.T) {
			objects := []client.Object{releasedVolume()}
			if tc.claim != nil {
				objects = append(objects, tc.claim)
			}
			if tc.is != nil {
				now := other.DeepCopy()
				tc.is(now)
				objects = append(objects, now)
			}
			r := newRig(nil, objects...)
			r.Cached = over(newRig(nil, releasedVolume(), other).api)
			if r.run(t); len(r.driver.deleted) != tc.want {
				t.Errorf("called %d times, want %d; events %q", len(r.driver.deleted), tc.want, r.events)
			}
		})
	}
}

// D-35, D-37: of two failed volumes with one handle neither waits for the other: both are asked
// about.
func TestFailedSameHandlesDoNotBlockEachOther(t *testing.T) {
	other := releasedVolume(phase(corev1.VolumeFailed))
	other.Name, other.UID, other.Finalizers = "same-handle", "v", []string{names.FinalizerVolume}
	r := newRig(nil, releasedVolume(phase(corev1.VolumeFailed)), other)
	if again := r.run(t); again != 0 || len(r.driver.deleted) != 1 {
		t.Errorf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
	}
}
