package provision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// handedOverClaims is a hand-off queue with these claims.
type handedOverClaims struct {
	uids map[types.UID]bool
	tell func(types.NamespacedName, types.UID)
}

func (d *handedOverClaims) Has(uid types.UID) bool                               { return d.uids[uid] }
func (d *handedOverClaims) Subscribe(tell func(types.NamespacedName, types.UID)) { d.tell = tell }
func (d *handedOverClaims) Forget(uid types.UID)                                 { delete(d.uids, uid) }

// unasked is a claim without the annotation of its provisioner.
func unasked(r *rig, t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.api.Get(t.Context(), r.key.NamespacedName, claim); err != nil {
		t.Fatal(err)
	}
	claim.Annotations = nil
	if err := r.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

// A claim that the binder hands over needs no annotation.
func TestHandedOverClaimGetsItsVolume(t *testing.T) {
	for _, given := range []bool{true, false} {
		r := newRig(t)
		unasked(r, t)
		r.HandedOver = &handedOverClaims{uids: map[types.UID]bool{"u": given}}
		r.run(t)
		if calls := len(r.driver.created); (calls == 1) != given {
			t.Errorf("given %t: CreateVolume was called %d times", given, calls)
		}
	}
}

func TestHandedOverClaimIsEnqueued(t *testing.T) {
	r := newRig(t)
	claim := unasked(r, t)
	d := &handedOverClaims{uids: map[types.UID]bool{}}
	r.HandedOver = d
	if keys := r.fromClaim(t.Context(), claim); len(keys) > 0 {
		t.Errorf("a claim without a provisioner enqueues %v", keys)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
	defer q.ShutDown()
	if err := r.fromBinder(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	d.uids["u"] = true
	d.tell(r.key.NamespacedName, "u")
	if key, _ := q.Get(); key != r.key {
		t.Errorf("enqueued %v", key)
	}
	if keys := r.fromClaim(t.Context(), claim); len(keys) != 1 {
		t.Errorf("a change of the claim enqueues %v", keys)
	}
	claim.Spec.VolumeName = "pvc-u"
	if keys := r.fromClaim(t.Context(), claim); len(keys) > 0 {
		t.Errorf("a claim that is bound enqueues %v", keys)
	}
}

// AN-5: upstream's PV controller names the driver that took the place of an in-tree plugin in an
// annotation of its own.
func TestMigratedClaimIsEnqueued(t *testing.T) {
	r := newRig(t)
	claim := unasked(r, t)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: "kubernetes.io/in-tree", names.AnnMigratedTo: driverName}
	if keys := r.fromClaim(t.Context(), claim); len(keys) != 1 {
		t.Errorf("enqueued %v", keys)
	}
}

func TestBoundClaimsAreForgotten(t *testing.T) {
	var told []types.UID
	handler := onBoundOrDeleted(func(uid types.UID) { told = append(told, uid) })
	free, bound := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	free.UID, bound.UID, bound.Spec.VolumeName = "free", "bound", "pv"
	handler.OnAdd(free, false)
	handler.OnUpdate(free, free)
	if len(told) > 0 {
		t.Errorf("told of %q, which waits", told)
	}
	handler.OnAdd(bound, false)
	handler.OnUpdate(free, bound)
	handler.OnDelete(free)
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: free})
	if len(told) != 4 {
		t.Errorf("told of %q", told)
	}
}

// The longest wait counts claims that were handed over and annotated ones.
func TestOldestHasHandedOverClaims(t *testing.T) {
	r := newRig(t)
	claim := func(name string, age time.Duration, annotations map[string]string) *corev1.PersistentVolumeClaim {
		class := "fast"
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "crew", Name: name, UID: types.UID(name), Annotations: annotations,
				CreationTimestamp: metav1.NewTime(r.clock.Now().Add(-age)),
			},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		}
	}
	r.Cached = kube.NewOverlay(indexed(
		t,
		claim("asked", time.Minute, map[string]string{names.AnnStorageProvisioner: driverName}),
		claim("given", time.Hour, nil),
		claim("unowned", 2*time.Hour, nil),
	), r.clock)
	if got := r.Oldest()["fast"]; got != time.Minute {
		t.Errorf("nothing handed over: %s", got)
	}
	r.HandedOver = &handedOverClaims{uids: map[types.UID]bool{"given": true}}
	if got := r.Oldest()["fast"]; got != time.Hour {
		t.Errorf("handed over: %s", got)
	}
}

// indexed returns a cache with the objects and with the indexes of the controller.
func indexed(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	cache, err := kube.NewDump(kube.NewScheme(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.AddIndexes(t.Context(), cache, Indexes()...); err != nil {
		t.Fatal(err)
	}
	return cache
}
