package provision

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// lossy is an API server whose answers to writes are lost.
type lossy struct{ client.Client }

func (l lossy) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return errors.Join(l.Client.Create(ctx, o, opts...), errors.New("connection reset"))
}

// C-117, H-3: the PersistentVolume was written and this process does not know it: the answer was
// lost, and the watch does not show it. Meanwhile things happen to the claim that would have a
// volume undone which does not exist.
func TestUncachedVolume(t *testing.T) {
	for name, meanwhile := range map[string]func(*testing.T, *rig){
		"nothing": func(*testing.T, *rig) {},
		"bound":   func(t *testing.T, r *rig) { r.bind(t, corev1.ClaimBound) },
		"bound, and the volume is taken away by force": func(t *testing.T, r *rig) {
			r.bind(t, corev1.ClaimLost)
			r.forceAway(t)
		},
		"being deleted": func(t *testing.T, r *rig) {
			claim := r.claim(t)
			claim.Finalizers = []string{names.FinalizerPVCProtection}
			r.update(t, claim)
			r.remove(t, claim)
		},
		"claim gone": func(t *testing.T, r *rig) { r.remove(t, r.claim(t)) },
		"class gone": func(t *testing.T, r *rig) {
			r.remove(t, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withoutSecrets)
			r.Writer = lossy{r.api}
			r.run(t)
			if r.journal.Len() != 1 {
				t.Fatalf("%d requests in the journal after the answer was lost", r.journal.Len())
			}
			r.Cached = r.Cached.Over(stale{r.api})
			meanwhile(t, r)
			for range 2 { // and once more when nothing is in the journal
				r.clock.Step(time.Minute)
				r.run(t)
			}
			if len(r.driver.deleted) > 0 || len(r.driver.created) != 1 || r.journal.Len() > 0 {
				t.Errorf("%d times DeleteVolume, %d times CreateVolume, %d requests in the journal", len(r.driver.deleted), len(r.driver.created), r.journal.Len())
			}
		})
	}
}

// An unwanted volume is deleted only if a live read right before finds no PersistentVolume for it.
func TestUnwantedVolumeIsDiscarded(t *testing.T) {
	discard := provision.DiscardVolume{Name: "pvc-u", Handle: "h"}
	for name, tc := range map[string]struct {
		edit    func(*corev1.PersistentVolume)
		refuse  error
		deleted int
	}{
		"its PersistentVolume exists":       {func(*corev1.PersistentVolume) {}, nil, 0},
		"under this name is another volume": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "other" }, nil, 1},
		"one of another driver":             {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }, nil, 1},
		"one that is no CSI volume":         {func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil }, nil, 1},
		"no answer":                         {func(*corev1.PersistentVolume) {}, errors.New("busy"), 0},
		"none":                              {nil, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withoutSecrets)
			if tc.edit != nil {
				pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u"}}
				pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h"}
				tc.edit(pv)
				if err := r.api.Create(t.Context(), pv); err != nil {
					t.Fatal(err)
				}
			}
			r.refuse = func(client.Object) error { return tc.refuse }
			next, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key, Driver: r.Driver}, discard)
			if len(r.driver.deleted) != tc.deleted || (next == nil && err == nil) != (tc.deleted > 0) {
				t.Errorf("%d calls, then %v, %v", len(r.driver.deleted), next, err)
			}
		})
	}
}

// photo is a cache that shows how a claim and its volume once were; nil for as they are.
type photo struct {
	client.Reader
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

func (p photo) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		if p.claim != nil {
			p.claim.DeepCopyInto(o)
			return nil
		}
	case *corev1.PersistentVolume:
		if p.volume != nil {
			p.volume.DeepCopyInto(o)
			return nil
		}
	}
	return p.Reader.Get(ctx, key, o, opts...)
}

// D-37: a driver may answer two requests with one volume, such as a share that the class names.
func TestSharedVolumeIsNotDiscarded(t *testing.T) {
	discard := provision.DiscardVolume{Name: "pvc-u", Handle: "h"}
	r := newRig(t, withoutSecrets)
	r.Sharing = func(_ context.Context, handle string) ([]*corev1.PersistentVolume, error) {
		return []*corev1.PersistentVolume{{ObjectMeta: metav1.ObjectMeta{Name: "pvc-v"}}}, map[string]error{"i": errors.New("busy")}[handle]
	}
	for _, discard.Handle = range []string{"h", "i"} {
		next, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key, Driver: r.Driver}, discard)
		if len(r.driver.deleted) > 0 || next == nil && err == nil {
			t.Errorf("%d calls, then %v, %v", len(r.driver.deleted), next, err)
		}
	}
}

// The list of PersistentVolumes with the same handle takes a while. Meanwhile a late write may
// create the PersistentVolume of the request.
func TestNotDiscardedOncePVExists(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.Sharing = func(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error) {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u"}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: handle}
		return nil, r.api.Create(ctx, pv)
	}
	next, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key, Driver: r.Driver}, provision.DiscardVolume{Name: "pvc-u", Handle: "h"})
	if len(r.driver.deleted) > 0 || next == nil || err != nil {
		t.Errorf("%d calls, then %v, %v", len(r.driver.deleted), next, err)
	}
}

// H-1: a claim and its PersistentVolume went long ago, with the volume; a call that was repeated
// has made another one. Memory is older than all that, as after a restart, and shows the claim
// bound, or its PersistentVolume there.
func TestStaleCacheOfDeletedObjects(t *testing.T) {
	for name, still := range map[string]func(*photo){
		"claim and volume": func(*photo) {},
		"volume":           func(p *photo) { p.claim = nil },
		"claim":            func(p *photo) { p.volume = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withoutSecrets)
			r.Writer = lossy{r.api}
			r.run(t)
			r.bind(t, corev1.ClaimBound)
			old := photo{r.api, r.claim(t), r.volume(t)}
			still(&old)
			r.Cached = r.Cached.Over(old)
			r.remove(t, r.claim(t))
			r.forceAway(t)
			r.clock.Step(time.Minute)
			r.run(t)
			if len(r.driver.created) != 2 || len(r.driver.deleted) != 1 || r.journal.Len() > 0 {
				t.Errorf("%d times CreateVolume, %d times DeleteVolume, %d requests in the journal", len(r.driver.created), len(r.driver.deleted), r.journal.Len())
			}
		})
	}
}

// H-1: the claim was bound and went, and its volume with it, while a call for it was repeated,
// which has made another one. The PersistentVolume is there still, and memory shows the claim as it
// was before: the second volume is deleted, and no claim gets it.
func TestSecondVolumeOfAClaimThatIsGone(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.Cached = r.Cached.Over(photo{stale{r.api}, r.claim(t), nil})
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u", Finalizers: []string{names.FinalizerVolume}}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: r.key.Namespace, Name: r.key.Name, UID: r.key.UID}
	pv.Spec.PersistentVolumeReclaimPolicy, pv.Status.Phase = corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "the first"}
	if err := r.api.Create(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	r.remove(t, r.claim(t))
	for range 3 {
		r.run(t)
		r.clock.Step(time.Minute)
	}
	if len(r.driver.created) != 1 || len(r.driver.deleted) != 1 || r.journal.Len() > 0 {
		t.Errorf("%d times CreateVolume, %d times DeleteVolume, %d requests in the journal", len(r.driver.created), len(r.driver.deleted), r.journal.Len())
	}
}

// H-1: the claim of a stale entry is read live, and another one under its name is not the claim.
func TestClaimExists(t *testing.T) {
	r := newRig(t, withoutSecrets)
	e := intent.Entry{Claim: r.key.NamespacedName, UID: r.key.UID}
	for name, tc := range map[string]struct {
		uid  types.UID
		want bool
	}{"the claim": {r.key.UID, true}, "C-94 another claim of the name": {"other", false}} {
		e.UID = tc.uid
		if got, err := ClaimExists(r.api)(t.Context(), e); got != tc.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}

// bind is what the PV controller does with the claim of the PersistentVolume.
func (r *rig) bind(t *testing.T, phase corev1.PersistentVolumeClaimPhase) {
	t.Helper()
	claim := r.claim(t)
	claim.Spec.VolumeName = "pvc-u"
	r.update(t, claim)
	claim.Status.Phase = phase
	if err := r.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) volume(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	pv := &corev1.PersistentVolume{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pvc-u"}, pv); err != nil {
		t.Fatal(err)
	}
	return pv
}

// forceAway leaves nothing of the PersistentVolume.
func (r *rig) forceAway(t *testing.T) {
	t.Helper()
	pv := r.volume(t)
	pv.Finalizers = nil
	r.update(t, pv)
	r.remove(t, pv)
}

func (r *rig) update(t *testing.T, o client.Object) {
	t.Helper()
	if err := r.api.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) remove(t *testing.T, o client.Object) {
	t.Helper()
	if err := r.api.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// full is a journal without room.
type full struct{ Journal }

func (full) Record(context.Context, intent.Entry) error { return intent.ErrFull }

// H-1: without a journal entry the driver is not asked; the claim says why it waits.
func TestFullJournalHoldsTheClaimBack(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.Journal = full{r.journal}
	next, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key}, provision.Record{})
	if err != nil || next == nil || next.Because().Reason != verdict.JournalFull {
		t.Errorf("%+v, %v", next, err)
	}
	if r.run(t); len(r.driver.created) > 0 {
		t.Error("CreateVolume is called")
	}
}
