package reclaim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/names"
	corereclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
)

// lagging is a cache that still has a volume as it was before our last write.
type lagging struct {
	client.Reader
	pv *corev1.PersistentVolume
}

func (l lagging) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	l.pv.DeepCopyInto(into.(*corev1.PersistentVolume))
	return nil
}

// lastFinalizer is an API server where ours is the last finalizer: the answer has the resource
// version of the object before.
type lastFinalizer struct {
	client.Client
	err error
}

func (l lastFinalizer) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	o.SetFinalizers(nil)
	return l.err
}

// writing returns a controller with a cache that has the volume and gets no news of it.
func writing(pv *corev1.PersistentVolume, api client.Client) *Controller {
	cached := fed(lagging{pv: pv})
	return New(Config{
		Settings: reconcile.Settings{Clock: clocktesting.NewFakeClock(now)}, Cached: cached, Writer: cached.Recording(api), Driver: testDriver(),
	})
}

func TestLastFinalizerIsNotDroppedTwice(t *testing.T) {
	for name, failed := range map[string]error{"dropped": nil, "the patch failed": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			now := metav1.Now()
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
				Name: "pv", UID: "u", ResourceVersion: "7", DeletionTimestamp: &now, Finalizers: []string{names.FinalizerVolume},
			}}
			c := writing(pv, lastFinalizer{err: failed})
			c.Cached.Saw(pv) // the watch is where the cache is
			before, err := c.Gather(t.Context(), "pv")
			if err != nil || before.Volume == nil {
				t.Fatalf("before: %v, %v", before.Volume, err)
			}
			if _, err := c.Apply(t.Context(), before, corereclaim.RemoveFinalizers{Volume: before.Volume, Names: []string{names.FinalizerVolume}}); !errors.Is(err, failed) {
				t.Fatalf("apply: %v", err)
			}
			after, err := c.Gather(t.Context(), "pv")
			if again := after.Volume != nil; err != nil || again != (failed != nil) {
				t.Errorf("would be reclaimed again: %v (%v)", again, err)
			}
			forgets(t, c, pv)
		})
	}
}

// forgets has the watch show that the volume is gone.
func forgets(t *testing.T, c *Controller, pv *corev1.PersistentVolume) {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	c.changes().Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolume]{Object: pv}, q)
	if len(c.memory.reclaimed)+len(c.memory.releasedFrom) > 0 {
		t.Error("a volume that is gone is not forgotten")
	}
}

// goneObject is an API server that answers a deletion.
type goneObject struct {
	client.Client
	err error
}

func (g goneObject) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return g.err
}

// Once the object is deleted an old view of it, on which it lacks our finalizer and is not being
// deleted, is no reason to begin anew.
func TestDeletedObjectIsNotReclaimedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		done bool
	}{
		"deleted":             {nil, true},
		"the deletion failed": {errors.New("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u", ResourceVersion: "7"}}
			c := writing(pv, goneObject{err: tc.err})
			if _, err := c.Apply(t.Context(), corereclaim.Snapshot{}, corereclaim.DeleteObject{Volume: pv}); !errors.Is(err, tc.err) {
				t.Fatalf("apply: %v", err)
			}
			s, err := c.Gather(t.Context(), "pv")
			if done := s.Volume == nil; err != nil || done != tc.done {
				t.Errorf("dealt with: %t, want %t (%v)", done, tc.done, err)
			}
			forgets(t, c, pv)
		})
	}
}

// H-18: a previous leader, which does not know yet that it was replaced, may protect the volume again
// after we let it go. What is as old as our answer is an old view; what is newer must not be left
// with a finalizer of ours for ever.
func TestAFinalizerThatComesAgain(t *testing.T) {
	deleted := metav1.Now()
	ours, none := []string{names.FinalizerVolume}, []string(nil)
	for name, tc := range map[string]struct {
		version    string
		finalizers []string
		deleting   *metav1.Time
		before     *metav1.Time // of the volume that we released
		again      bool
	}{
		"from before our answer":             {"7", ours, nil, nil, false},
		"in the answer to the last one":      {"8", ours, &deleted, &deleted, false},
		"added again":                        {"9", ours, nil, nil, true},
		"added again, and deleted":           {"10", ours, &deleted, nil, true},
		"newer, with another finalizer only": {"9", none, &deleted, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil, releasedVolume())
			pv := releasedVolume(func(pv *corev1.PersistentVolume) {
				pv.ResourceVersion, pv.Finalizers, pv.DeletionTimestamp = tc.version, tc.finalizers, tc.deleting
			})
			r.Cached = fed(lagging{Reader: r.api, pv: pv})
			answer := pv.DeepCopy()
			answer.ResourceVersion, answer.Finalizers, answer.DeletionTimestamp = "8", none, tc.before
			r.Writer = r.Cached.Recording(answering{answer: answer})
			for _, a := range []corereclaim.Action{corereclaim.RemoveFinalizers{Volume: answer, Names: ours}, corereclaim.DeleteObject{Volume: answer}} {
				if _, err := r.Apply(t.Context(), corereclaim.Snapshot{}, a); err != nil {
					t.Fatal(err)
				}
			}
			s, err := r.Gather(t.Context(), "pv")
			v := r.Decide(s, now)
			_, rests := v.(verdict.Nothing[corereclaim.Action])
			if rests == tc.again || err != nil {
				t.Errorf("dealt with again: %t: %+v (%v)", !rests, v, err)
			}
		})
	}
}

// answering is an API server with one answer to each patch.
type answering struct {
	client.Client
	answer *corev1.PersistentVolume
}

func (a answering) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	a.answer.DeepCopyInto(o.(*corev1.PersistentVolume))
	return nil
}

func (answering) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// No deletion comes through the watch for an object that was gone before: it must be forgotten at
// once.
func TestObjectThatWasGoneIsForgotten(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u"}}
	missing := apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "pv")
	c := writing(pv, goneObject{err: missing})
	if _, err := c.Apply(t.Context(), corereclaim.Snapshot{}, corereclaim.DeleteObject{Volume: pv}); err != nil || len(c.memory.reclaimed) > 0 {
		t.Errorf("remembered: %v (%v)", c.memory.reclaimed, err)
	}
}

// I7: no call for a volume begins while another one is under way, and it is tried again.
func TestOneCallForAVolumeAtATime(t *testing.T) {
	r := newRig(nil, releasedVolume())
	end, err := r.Calls.Begin("CreateVolume", "pv", "")
	if err != nil {
		t.Fatal(err)
	}
	if again := r.run(t); again == 0 || len(r.driver.deleted) > 0 {
		t.Errorf("while it is created: again in %s, called %d times", again, len(r.driver.deleted))
	}
	end()
	r.Settings.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	if r.run(t); len(r.driver.deleted) != 1 {
		t.Errorf("afterwards: called %d times", len(r.driver.deleted))
	}
}

// missing is an API server that has no volume.
type missing struct{ client.Writer }

func (missing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "pv")
}

// U-7, D-18, H-18: if the volume is gone when its finalizer would be added, it was reclaimed
// already, and the driver is not called again.
func TestVolumeThatIsGoneIsNotProtected(t *testing.T) {
	r := newRig(nil, releasedVolume(func(pv *corev1.PersistentVolume) { pv.Finalizers = nil }))
	r.Writer = missing{}
	if again := r.run(t); again != 0 || len(r.driver.deleted) > 0 {
		t.Errorf("again in %s, called %d times", again, len(r.driver.deleted))
	}
}

// D-33, H-20: for a volume that is deleted without our finalizer an event has its handle, unless
// this process has reclaimed it.
func TestAbandonedVolumeIsReported(t *testing.T) {
	going := releasedVolume(func(pv *corev1.PersistentVolume) {
		pv.DeletionTimestamp, pv.Finalizers = new(metav1.Now()), []string{names.FinalizerPVProtection}
	})
	for name, tc := range map[string]struct {
		did  types.UID // what this process has reclaimed
		told bool
	}{
		"not dealt with":     {"", true},
		"we dealt with it":   {going.UID, false},
		"it was another one": {"former", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil, going.DeepCopy())
			r.memory.reclaims(tc.did)
			if got := r.isLost(going); got != tc.told {
				t.Errorf("enqueues: %t", got)
			}
			r.run(t)
			if told := strings.Join(r.events, " "); strings.Contains(told, "Warning VolumeFailedDelete") != tc.told || strings.Contains(told, `"h"`) != tc.told {
				t.Errorf("events %q", told)
			}
			if len(r.driver.deleted)+len(r.writes) > 0 {
				t.Errorf("called %d times, wrote %q", len(r.driver.deleted), r.writes)
			}
		})
	}
}

// unanswered is an API server that deletes, and whose answer is lost.
type unanswered struct{ client.Client }

func (u unanswered) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return errors.Join(u.Client.Delete(ctx, o, opts...), errors.New("connection reset"))
}

// D-33: the volume is deleted and our finalizer removed, the response to the deletion of the object
// is lost, another finalizer keeps the object, and the watch has not delivered its
// deletionTimestamp. There is no event about an abandoned volume, since this process deleted it.
func TestDeletionWithoutAResponse(t *testing.T) {
	r := newRig(nil, releasedVolume())
	r.Cached = fed(heldUp{r.api, releasedVolume()})
	r.Writer = r.Cached.Recording(unanswered{r.api})
	for range 2 {
		r.run(t)
		r.Settings.Clock.(*clocktesting.FakeClock).Step(time.Minute)
	}
	pv := &corev1.PersistentVolume{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, pv); err != nil || pv.DeletionTimestamp == nil {
		t.Fatalf("the object: %+v, %v", pv.ObjectMeta, err)
	}
	if len(r.driver.deleted) != 1 || len(r.events) > 0 {
		t.Errorf("called %d times, events %q", len(r.driver.deleted), r.events)
	}
}
