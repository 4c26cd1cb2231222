package reconcile

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func pod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}}
}

func describe(c Change[*corev1.Pod]) string {
	switch {
	case c.IsCreated():
		return "created " + string(c.Object().UID)
	case c.IsDeleted():
		return "deleted " + string(c.Object().UID)
	}
	return "updated " + string(c.Old.UID) + " to " + string(c.Object().UID)
}

// 8.30: an update from one uid to another is a deletion and a creation.
func TestOnChange(t *testing.T) {
	var seen []string
	h := OnChange(func(_ context.Context, c Change[*corev1.Pod], _ Queue[string]) { seen = append(seen, describe(c)) })
	h.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: pod("1")}, nil)
	h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod("1"), ObjectNew: pod("1")}, nil)
	h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod("1"), ObjectNew: pod("2")}, nil)
	h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod("2")}, nil)
	if diff := cmp.Diff([]string{"created 1", "updated 1 to 1", "deleted 1", "created 2", "deleted 2"}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestOnDelete(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	h := OnDelete(func(_ context.Context, p *corev1.Pod) []string { return []string{string(p.UID)} })
	h.Create(t.Context(), event.TypedCreateEvent[*corev1.Pod]{Object: pod("1")}, q)
	h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod("1"), ObjectNew: pod("1")}, q)
	if q.Len() != 0 {
		t.Errorf("%d keys for an object that is there", q.Len())
	}
	h.Update(t.Context(), event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod("1"), ObjectNew: pod("2")}, q)
	h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.Pod]{Object: pod("2")}, q)
	if q.Len() != 2 {
		t.Errorf("%d keys, want 1 and 2", q.Len())
	}
}

// A tombstone is unwrapped, and an object of another kind is ignored.
func TestInformerHandler(t *testing.T) {
	var seen []string
	h := InformerHandler(func(c Change[*corev1.Pod]) { seen = append(seen, describe(c)) })
	h.OnAdd(pod("1"), true)
	h.OnUpdate(pod("1"), pod("2"))
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "p", Obj: pod("2")})
	h.OnDelete(&corev1.Node{})
	if diff := cmp.Diff([]string{"created 1", "updated 1 to 2", "deleted 2"}, seen); diff != "" {
		t.Error(diff)
	}
}
