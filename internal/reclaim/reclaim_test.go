package reclaim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/names"
	corereclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// The budget: PATCH and DELETE, and no read.
func TestReclaimWrites(t *testing.T) {
	for _, tc := range []struct {
		row   string
		pv    *corev1.PersistentVolume
		want  []string
		calls int
	}{
		{"H-51 ours: two writes", releasedVolume(), []string{"PATCH pv", "DELETE pv"}, 1},
		{"H-20 without finalizer: a third", releasedVolume(func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{names.FinalizerPVProtection} }), []string{"PATCH pv", "PATCH pv", "DELETE pv"}, 1},
		{"C-80 retain: one patch that tests the policy", releasedVolume(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), []string{"PATCH pv"}, 0},
		{"C-81 bound: protected", releasedVolume(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }), []string{"PATCH pv"}, 0},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(nil, tc.pv)
			if again := r.run(t); again != 0 {
				t.Errorf("again in %s: %q", again, r.events)
			}
			if !slices.Equal(r.writes, tc.want) || len(r.driver.deleted) != tc.calls || len(r.reads) > 0 {
				t.Errorf("wrote %q, read %q, called %d times", r.writes, r.reads, len(r.driver.deleted))
			}
			var pv corev1.PersistentVolume
			err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, &pv)
			has := err == nil && slices.Contains(pv.Finalizers, names.FinalizerVolume)
			if want := tc.pv.Status.Phase == corev1.VolumeBound; has != want {
				t.Errorf("has our finalizer: %v", has)
			}
		})
	}
}

// One patch takes both finalizers, and the deletion finds none. Without the option the
// other one is not ours to take.
func TestDropProtection(t *testing.T) {
	for _, both := range []bool{true, false} {
		r := newRig(nil, releasedVolume())
		r.DropProtection = both
		r.run(t)
		if want := []string{"PATCH pv", "DELETE pv"}; !slices.Equal(r.writes, want) {
			t.Errorf("DropProtection %t: wrote %q, want %q", both, r.writes, want)
		}
		var pv corev1.PersistentVolume
		err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, &pv)
		if gone := apierrors.IsNotFound(err); gone != both {
			t.Errorf("DropProtection %t: gone %t, finalizers %q", both, gone, pv.Finalizers)
		}
	}
}

// The protection controller was faster: there is nothing left to take of it.
func TestDropProtectionSecond(t *testing.T) {
	r := newRig(nil, releasedVolume(func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{names.FinalizerVolume} }))
	r.DropProtection = true
	if again := r.run(t); again != 0 || len(r.writes) != 2 {
		t.Errorf("wrote %q, again in %s", r.writes, again)
	}
}

// The view says Retain, and meanwhile the policy has become Delete: the finalizer must stay (D-20).
func TestStaleCacheDoesNotUnprotect(t *testing.T) {
	r := newRig(nil, releasedVolume(phase(corev1.VolumeBound)))
	old := releasedVolume(phase(corev1.VolumeBound), func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	if _, err := r.Apply(t.Context(), corereclaim.Snapshot{Name: "pv", Volume: old}, corereclaim.RemoveFinalizerIfRetained{Volume: old}); err == nil {
		t.Error("the finalizer was dropped")
	}
}

func TestSecretsForDeletion(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driverName, Parameters: map[string]string{
		names.ParameterProvisionerSecretName: "s", names.ParameterProvisionerSecretNamespace: "vault",
	}}
	for _, tc := range []struct {
		row     string
		refuse  error
		objects []client.Object
		secret  bool   // goes to the driver
		event   string // part of it, when the driver is not to be asked
	}{
		{"D-15 AN-8 none", nil, []client.Object{releasedVolume(), vault(), class}, false, ""},
		{"D-15 AN-8 named", nil, []client.Object{releasedVolume(annotate("s", "vault")), vault()}, true, ""},
		{"D-15 from the class", nil, []client.Object{releasedVolume(noAnnotations), vault(), class}, true, ""},
		{"D-15 the class is gone", nil, []client.Object{releasedVolume(noAnnotations), vault()}, false, ""},
		{"D-15 U-41 the secret does not exist: without", nil, []client.Object{releasedVolume(annotate("s", "vault"))}, false, ""},
		{"H-16 U-41 forbidden: an event that names the rule", apierrors.NewForbidden(secrets, "s", errors.New("no")), []client.Object{releasedVolume(annotate("s", "vault"))}, false, `Role in namespace "vault"`},
		{"H-16 U-41 timeout: an event, and again", apierrors.NewTimeoutError("busy", 1), []client.Object{releasedVolume(annotate("s", "vault"))}, false, `Warning VolumeFailedDelete secret "vault/s"`},
		{"D-15 exactly one annotation is empty", nil, []client.Object{releasedVolume(annotate("s", "")), vault()}, false, names.AnnDeletionSecretNamespace},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(tc.refuse, tc.objects...)
			again := r.run(t)
			if tc.event != "" {
				if again == 0 || len(r.driver.deleted) > 0 || !strings.Contains(strings.Join(r.events, "\n"), tc.event) {
					t.Errorf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
				}
				return
			}
			if len(r.driver.deleted) != 1 || (r.driver.deleted[0].GetSecrets()["password"] == marker) != tc.secret {
				t.Errorf("the driver got %v; events %q", r.driver.deleted, r.events)
			}
		})
	}
}

// what the driver says of its credentials does not leave the call.
func TestDeletionSecretIsNotLogged(t *testing.T) {
	r := newRig(nil, releasedVolume(annotate("s", "vault")), vault())
	r.driver.fail = status.Error(codes.Unauthenticated, "cannot log in with "+marker)
	r.run(t)
	if told := strings.Join(r.events, "\n"); strings.Contains(told, marker) || !strings.Contains(told, "cannot log in with [redacted]") {
		t.Errorf("events %q", told)
	}
}

// I3: a volume in an odd phase is deleted only when the API server itself says that the claim is
// gone.
func TestProofIsRead(t *testing.T) {
	failed := releasedVolume(phase(corev1.VolumeFailed))
	for _, tc := range []struct {
		row    string
		refuse error
		claim  client.Object
		calls  int
	}{
		{"D-35 claim gone", nil, nil, 1},
		{"D-35 C-94 another claim has the name", nil, claim("other"), 1},
		{"I3 claim exists", nil, claim("c"), 0},
		{"I3 the API server does not answer", apierrors.NewTimeoutError("busy", 1), nil, 0},
	} {
		t.Run(tc.row, func(t *testing.T) {
			objects := []client.Object{failed.DeepCopy()}
			if tc.claim != nil {
				objects = append(objects, tc.claim)
			}
			r := newRig(tc.refuse, objects...)
			r.run(t)
			if len(r.driver.deleted) != tc.calls || !slices.Equal(r.reads, []string{"/pv", "crew/logbook", "all", "/pv", "crew/logbook"}[:2+3*tc.calls]) {
				t.Errorf("called %d times, read %q", len(r.driver.deleted), r.reads)
			}
		})
	}
}

// D-37: a volume that another PersistentVolume has too is not deleted, and the deletion of that
// PersistentVolume enqueues this one.
func TestSameHandleIsFound(t *testing.T) {
	other := releasedVolume(phase(corev1.VolumeBound))
	other.Name, other.UID = "same-handle", "v"
	foreign := other.DeepCopy()
	foreign.Name, foreign.Spec.CSI.Driver = "foreign", "another.driver"
	r := newRig(nil, releasedVolume(), other, foreign)
	if again := r.run(t); again == 0 || len(r.driver.deleted) > 0 || !strings.Contains(r.events[0], `"same-handle"`) {
		t.Errorf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
	}
	if got := r.fromSameHandle(t.Context(), other); !slices.Equal(got, []string{"pv"}) {
		t.Errorf("the end of the other enqueues %q", got)
	}
	if got := newRig(nil, releasedVolume(), foreign).run(t); got != 0 {
		t.Error("a handle of another driver stands in the way")
	}
}

func attachment(name, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: "node-" + name}}
	if volume != "" {
		a.Spec.Source.PersistentVolumeName = &volume
	}
	return a
}

// D-16, U-40: an attached volume waits without a retry, and the deletion of its last
// VolumeAttachment enqueues it.
func TestAttachments(t *testing.T) {
	first, last := attachment("1", "pv"), attachment("2", "pv")
	r := newRig(nil, releasedVolume(), first, last, attachment("3", "another"), attachment("4", ""))
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 || len(r.events) != 1 || !strings.Contains(r.events[0], "Normal VolumeDelete persistentvolume pv is still attached to node node-1, node-2") {
		t.Fatalf("again in %s, called %d times, events %q", again, len(r.driver.deleted), r.events)
	}
	for i, a := range []*storagev1.VolumeAttachment{first, last} {
		if err := r.api.Delete(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if got := enqueuedBy(t, a); !slices.Equal(got, []string{"pv"}) {
			t.Fatalf("enqueued %q", got)
		}
		if r.run(t); len(r.driver.deleted) != i {
			t.Errorf("after %d of 2 went: called %d times", i+1, len(r.driver.deleted))
		}
	}
	if got := enqueuedBy(t, attachment("4", "")); len(got) > 0 {
		t.Errorf("an inline volume enqueued %q", got)
	}
}

// enqueuedBy returns the keys that the end of an attachment enqueues; that it comes or changes
// puts none.
func enqueuedBy(t *testing.T, a *storagev1.VolumeAttachment) []string {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	h := deleted(newRig(nil).fromAttachment)
	h.Create(t.Context(), event.TypedCreateEvent[*storagev1.VolumeAttachment]{Object: a}, q)
	h.Update(t.Context(), event.TypedUpdateEvent[*storagev1.VolumeAttachment]{ObjectOld: a, ObjectNew: a}, q)
	if q.Len() > 0 {
		t.Error("a new attachment enqueues its volume")
	}
	h.Delete(t.Context(), event.TypedDeleteEvent[*storagev1.VolumeAttachment]{Object: a}, q)
	var keys []string
	for q.Len() > 0 {
		key, _ := q.Get()
		keys = append(keys, key)
	}
	return keys
}

// D-35: no event of the volume follows the end of the claim of a failed one.
func TestClaimEnqueuesAFailedVolume(t *testing.T) {
	for row, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		want int
	}{
		"D-35 failed": {releasedVolume(phase(corev1.VolumeFailed)), 1},
		"D-30 bound: the PV controller changes its phase": {releasedVolume(phase(corev1.VolumeBound)), 0},
		"D-2 another driver's":                            {releasedVolume(phase(corev1.VolumeFailed), func(pv *corev1.PersistentVolume) { pv.Annotations[names.AnnProvisionedBy] = "another" }), 0},
	} {
		if got := newRig(nil, tc.pv).fromClaim(t.Context(), claim("c")); len(got) != tc.want {
			t.Errorf("%s: enqueued %q", row, got)
		}
	}
	if got := newRig(nil).fromClaim(t.Context(), claim("c")); len(got) != 0 {
		t.Errorf("no volume: enqueued %q", got)
	}
}

// H-19: a volume that is being deleted and reserved by name waits for the claim of that name, which
// need not know of it.
func TestClaimEnqueuesAReservedVolume(t *testing.T) {
	reserved := releasedVolume(phase(corev1.VolumeAvailable), func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef.UID = ""
		now := metav1.Now()
		pv.DeletionTimestamp = &now
	})
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	h := releasing(newRig(nil, reserved).fromClaim)
	pending, elsewhere := claim("c"), claim("c")
	pending.Spec.VolumeName, elsewhere.Spec.VolumeName = "", "other"
	for _, tc := range []struct {
		name string
		tell func()
		want int
	}{
		{"a claim that merely changes", func() {
			h.Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: pending, ObjectNew: pending}, q)
		}, 0},
		{"it takes another volume", func() {
			h.Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: pending, ObjectNew: elsewhere}, q)
		}, 1},
		{"it goes", func() {
			h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolumeClaim]{Object: pending}, q)
		}, 1},
	} {
		tc.tell()
		if q.Len() != tc.want {
			t.Errorf("%s: %d keys enqueued, want %d", tc.name, q.Len(), tc.want)
		}
		for q.Len() > 0 {
			key, _ := q.Get()
			q.Forget(key)
			q.Done(key)
		}
	}
}
