package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/reconcile"
)

// 4.13 R9: a CSIDriver that is created or whose attachRequired changes enqueues the volumes that a pod
// uses, and no others: a cluster has a hundred thousand. One of the first list enqueues none.
func TestDriverEvents(t *testing.T) {
	unused := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "unused"}, Spec: corev1.PersistentVolumeSpec{
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "unused"},
		},
	}}
	for _, tc := range []struct {
		name string
		of   string // driver
		send func(*rig, *storagev1.CSIDriver, queue)
		want int
	}{
		{"of the first list", driver, func(r *rig, d *storagev1.CSIDriver, q queue) {
			r.driverEvents().Create(r.Context(), event.TypedCreateEvent[*storagev1.CSIDriver]{Object: d, IsInInitialList: true}, q)
		}, 0},
		{"created", driver, func(r *rig, d *storagev1.CSIDriver, q queue) {
			r.driverEvents().Create(r.Context(), event.TypedCreateEvent[*storagev1.CSIDriver]{Object: d}, q)
		}, 1},
		{"changed", driver, func(r *rig, d *storagev1.CSIDriver, q queue) {
			now := d.DeepCopy()
			now.Spec.AttachRequired = new(false)
			r.driverEvents().Update(r.Context(), event.TypedUpdateEvent[*storagev1.CSIDriver]{ObjectOld: d, ObjectNew: now}, q)
		}, 1},
		{"another driver", "other.example.com", func(r *rig, d *storagev1.CSIDriver, q queue) {
			r.driverEvents().Delete(r.Context(), event.TypedDeleteEvent[*storagev1.CSIDriver]{Object: d}, q)
		}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, interceptor.Funcs{}, append(pair(), node("a"), pod("p", "a"), unused)...)
			q := reconcile.NewQueue(Name, workqueue.DefaultTypedControllerRateLimiter[Key]())
			defer q.ShutDown()
			d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: tc.of}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}
			tc.send(r, d, q)
			if q.Len() != tc.want {
				t.Errorf("%d volumes are enqueued, want %d", q.Len(), tc.want)
			}
		})
	}
}
