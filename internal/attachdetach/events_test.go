package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/reconcile"
)

// 4.2: changes of a claim and its volume enqueue the volume only if a pod, a VolumeAttachment or a
// node refers to it: most claims are bound and deleted without any.
func TestEventsOfClaimsAndVolumes(t *testing.T) {
	byHand := va("a", true)
	byHand.Name = "made-by-hand"
	for name, tc := range map[string]struct {
		there []client.Object
		want  int
	}{
		"a volume without users":              {[]client.Object{node("a")}, 0},
		"a pod with a node":                   {[]client.Object{node("a"), pod("p", "a")}, 1},
		"a VolumeAttachment and no pod":       {[]client.Object{node("a"), va("a", true)}, 1},
		"a VolumeAttachment of another name":  {[]client.Object{node("a"), byHand}, 1},
		"a node that lists it, and no others": {[]client.Object{node("a", hasListed)}, 1},
	} {
		objects := pair()
		r := newRig(t, interceptor.Funcs{}, append(objects, tc.there...)...)
		claim, pv := objects[0].(*corev1.PersistentVolumeClaim), objects[1].(*corev1.PersistentVolume)
		q := reconcile.NewQueue[Key](Name, nil)
		unbound, unlinked := claim.DeepCopy(), pv.DeepCopy()
		unbound.Status.Phase, unlinked.Spec.ClaimRef = corev1.ClaimPending, nil
		for what, send := range map[string]func(){
			"claim created": func() {
				r.claimEvents().Create(t.Context(), event.TypedCreateEvent[*corev1.PersistentVolumeClaim]{Object: claim}, q)
			},
			"claim bound": func() {
				r.claimEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: unbound, ObjectNew: claim}, q)
			},
			"claim deleted": func() {
				r.claimEvents().Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolumeClaim]{Object: claim}, q)
			},
			"volume created": func() {
				r.volumeEvents().Create(t.Context(), event.TypedCreateEvent[*corev1.PersistentVolume]{Object: pv}, q)
			},
			"volume taken": func() {
				r.volumeEvents().Update(t.Context(), event.TypedUpdateEvent[*corev1.PersistentVolume]{ObjectOld: unlinked, ObjectNew: pv}, q)
			},
			"volume deleted": func() {
				r.volumeEvents().Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolume]{Object: pv}, q)
			},
		} {
			if send(); q.Len() != tc.want {
				t.Errorf("%s, %s: %d keys, want %d", name, what, q.Len(), tc.want)
			}
			for q.Len() > 0 {
				key, _ := q.Get()
				q.Done(key)
			}
		}
		q.ShutDown()
	}
}
