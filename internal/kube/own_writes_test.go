package kube

import (
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func volume(name, version string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func cached(pv *corev1.PersistentVolume) func() (*corev1.PersistentVolume, bool, error) {
	return func() (*corev1.PersistentVolume, bool, error) { return pv, pv != nil, nil }
}

// The watch delivers the write while the cache is read. The object that was read from the cache is
// older than the write.
func TestOwnWritesWhenTheWatchPassesMeanwhile(t *testing.T) {
	r := NewOwnWrites[*corev1.PersistentVolume]()
	r.Wrote(volume("a", "10"))
	got, found, err := r.Read(client.ObjectKey{Name: "a"}, func() (*corev1.PersistentVolume, bool, error) {
		old := volume("a", "9")
		r.Saw(volume("a", "10"))
		return old, true, nil
	})
	if err != nil || !found || got.ResourceVersion != "10" {
		t.Errorf("read %v, %v, %v; want our own write", got, found, err)
	}
}

// After a broken watch, a deletion is delivered with the object's state from before the write, and
// before all newer events. The entry of an object with another uid stays: that object was created
// later.
func TestOwnWritesForgetsWhatIsGone(t *testing.T) {
	of := func(uid types.UID, version string) *corev1.PersistentVolume {
		pv := volume("a", version)
		pv.UID = uid
		return pv
	}
	for uid, want := range map[types.UID]bool{"1": false, "2": true} {
		r := NewOwnWrites[*corev1.PersistentVolume]()
		r.Wrote(of(uid, "10"))
		r.Gone(of("1", "5"))
		if _, found, err := r.Read(client.ObjectKey{Name: "a"}, cached(nil)); err != nil || found != want {
			t.Errorf("written to %s, and 1 is gone: found %v, %v", uid, found, err)
		}
	}
}

func TestOwnWritesPassesErrorsOn(t *testing.T) {
	r := NewOwnWrites[*corev1.PersistentVolume]()
	r.Wrote(volume("a", "10"))
	unread := errors.New("no")
	_, _, err := r.Read(client.ObjectKey{Name: "a"}, func() (*corev1.PersistentVolume, bool, error) { return nil, false, unread })
	if !errors.Is(err, unread) {
		t.Errorf("got %v", err)
	}
}

func TestOwnWrites(t *testing.T) {
	key := client.ObjectKey{Name: "a"}
	// Versions of different lengths: "10" is newer than "9".
	for _, tc := range []struct {
		name   string
		own    *corev1.PersistentVolume
		events []*corev1.PersistentVolume
		cached *corev1.PersistentVolume
		want   string // version; empty for not found
	}{
		{"nothing written, nothing cached", nil, nil, nil, ""},
		{"nothing written", nil, nil, volume("a", "9"), "9"},
		{"created, watch behind", volume("a", "10"), []*corev1.PersistentVolume{volume("b", "9")}, nil, "10"},
		{"changed, cache old", volume("a", "10"), nil, volume("a", "9"), "10"},
		{"changed, cache newer", volume("a", "10"), nil, volume("a", "11"), "11"},
		{"changed, same in cache", volume("a", "10"), []*corev1.PersistentVolume{volume("a", "10")}, volume("a", "10"), "10"},
		{"deleted by another since: another object's event shows that the watch has passed", volume("a", "10"), []*corev1.PersistentVolume{volume("b", "12")}, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := NewOwnWrites[*corev1.PersistentVolume]()
			if tc.own != nil {
				r.Wrote(tc.own)
			}
			for _, seen := range tc.events {
				r.Saw(seen)
			}
			got, found, err := r.Read(key, cached(tc.cached))
			if err != nil {
				t.Fatal(err)
			}
			if found != (tc.want != "") {
				t.Fatalf("found = %v, want %q", found, tc.want)
			}
			if found && got.ResourceVersion != tc.want {
				t.Errorf("version %s, want %s", got.ResourceVersion, tc.want)
			}
		})
	}
}

func TestOwnWritesIgnoresAWriteThatTheWatchHasPassed(t *testing.T) {
	r := NewOwnWrites[*corev1.PersistentVolume]()
	r.Gone(volume("a", "11"))
	r.Wrote(volume("a", "10"))
	if _, found, _ := r.Read(client.ObjectKey{Name: "a"}, cached(nil)); found {
		t.Error("a deleted object came back")
	}
}

// The objects of a new list drop no entries, however many there are.
func TestOwnWritesForgets(t *testing.T) {
	r := NewOwnWrites[*corev1.PersistentVolume]()
	r.Wrote(volume("a", "10"))
	for range 3 * sweepEvery {
		r.Saw(volume("b", "11"))
	}
	if len(r.byKey) != 1 {
		t.Error("forgotten while a list comes")
	}
	for i := range 2 * sweepEvery {
		r.Saw(volume("b", strconv.Itoa(12+i)))
	}
	if len(r.byKey) != 0 {
		t.Errorf("%d entries are left that no caller asks for", len(r.byKey))
	}
	r.Wrote(volume("c", "100000"))
	r.Saw(volume("c", "100000"))
	if len(r.byKey) != 0 {
		t.Error("kept although the watch has shown it")
	}
}

// The response to a write often arrives after the watch has delivered the object. Then no entry may
// be left: after a burst there may be no event for hours that would drop it.
func TestOwnWritesKeepsNothingThatWasShown(t *testing.T) {
	r := NewOwnWrites[*corev1.PersistentVolume]()
	name := func(i int) string { return strconv.Itoa(i % 300) }
	for i := range 3000 {
		r.Saw(volume(name(i), strconv.Itoa(10+i)))
		if i >= 200 {
			r.Wrote(volume(name(i-200), strconv.Itoa(10+i-200)))
		}
	}
	if len(r.byKey) != 0 || len(r.shown.latest) != 300 {
		t.Errorf("%d entries are left, %d objects are known as shown", len(r.byKey), len(r.shown.latest))
	}
	for i := range 2 * mostShown {
		r.Saw(volume("n"+strconv.Itoa(i), strconv.Itoa(10000+i)))
	}
	if len(r.shown.latest) != mostShown || len(r.shown.order) != mostShown {
		t.Errorf("%d and %d are known as shown, want %d", len(r.shown.latest), len(r.shown.order), mostShown)
	}
	r.Wrote(volume("n1000", "9000")) // an answer of long ago
	r.Wrote(volume("n1001", "20000"))
	if len(r.byKey) != 1 {
		t.Errorf("%d entries, want the newer one only", len(r.byKey))
	}
}

// After a broken watch, the new list delivers an object that is newer than the write before it
// delivers the written object, of which the cache still has the old state. The write must be read
// both when its response arrives before the list and when it arrives during the list.
func TestOwnWritesWhileAListComes(t *testing.T) {
	list := func(r *OwnWrites[*corev1.PersistentVolume]) { r.Saw(volume("b", "12")) }
	write := func(r *OwnWrites[*corev1.PersistentVolume]) { r.Wrote(volume("a", "10")) }
	for name, steps := range map[string][]func(*OwnWrites[*corev1.PersistentVolume]){"before": {write, list}, "amid": {list, write}} {
		r := NewOwnWrites[*corev1.PersistentVolume]()
		for _, step := range steps {
			step(r)
		}
		got, _, err := r.Read(client.ObjectKey{Name: "a"}, cached(volume("a", "9")))
		if err != nil || got.ResourceVersion != "10" {
			t.Errorf("written %s the list: read %v, %v", name, got.ResourceVersion, err)
		}
	}
}

func TestTrim(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", Labels: map[string]string{"l": "v"}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
		Annotations: map[string]string{annLastApplied: "{}", "keep": "me"},
	}}
	claim.Status.Phase = corev1.ClaimPending
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{}}
	if _, err := Trim(claim); err != nil {
		t.Fatal(err)
	}
	if claim.ManagedFields != nil || len(claim.Labels) != 1 || claim.Status.Conditions != nil || len(claim.Annotations) != 1 {
		t.Errorf("kept too much: %+v", claim)
	}
	if claim.Annotations["keep"] != "me" || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("dropped too much: %+v", claim)
	}
	if got, err := Trim(toolscache.DeletedFinalStateUnknown{}); err != nil || got == nil {
		t.Errorf("a tombstone became %v, %v", got, err)
	}
}
