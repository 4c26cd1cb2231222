package capacity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/topology"
)

// publish returns a rig in which the capacities of both zones are published.
func publish(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	if keys := r.replanned(t); !slices.Equal(keys, []capacity.Key{inA, inB}) {
		t.Fatalf("S-19: the first plan enqueues %v", keys)
	}
	r.run(t, inA, inB)
	r.expect(t, "S-6", map[capacity.Key]int64{inA: 10, inB: 20}, "create", "create")
	return r
}

// S-1, S-6, S-7: there is an object for each class and segment, and GetCapacity gets no reserved
// parameters.
func TestPublish(t *testing.T) {
	r := publish(t)
	asked := r.driver.asked[0]
	if len(asked.GetParameters()) != 1 || asked.GetParameters()["tier"] != "ssd" || asked.GetAccessibleTopology().GetSegments()["zone"] != "a" {
		t.Errorf("S-7: asked with %v", asked)
	}
	if keys := r.replanned(t); len(keys) > 0 {
		t.Errorf("S-3: the same plan enqueues %v", keys)
	}
}

// S-8: an object with the right values is not written, one with other values is updated.
func TestUpdate(t *testing.T) {
	r := publish(t)
	r.run(t, inA)
	r.expect(t, "the same answer", map[capacity.Key]int64{inA: 10, inB: 20})
	r.driver.room["a"] = 5
	r.run(t, inA)
	r.expect(t, "another answer", map[capacity.Key]int64{inA: 5, inB: 20}, "update")
}

// S-10: no second object is created while the cache does not have the first one yet.
func TestOwnWriteIsSeen(t *testing.T) {
	r := publish(t)
	r.hide()
	r.driver.room["a"] = 5
	r.run(t, inA)
	r.expect(t, "the cache is empty", map[capacity.Key]int64{inA: 5, inB: 20}, "update")
}

// S-10, S-20: a new leader with a stale cache finds the object by its name and updates it.
func TestObjectThatTheCacheDoesNotShow(t *testing.T) {
	before := publish(t)
	r := newRig(t)
	r.over(before.api)
	r.hide()
	r.replanned(t)
	before.writes = nil
	r.driver.room["a"] = 5
	r.run(t, inA)
	before.expect(t, "after AlreadyExists", map[capacity.Key]int64{inA: 5, inB: 20}, "create", "update")
}

// S-10: while the watch is interrupted, an object is created and deleted, which the cache never shows. It is
// created again with its class.
func TestObjectThatTheCacheNeverShows(t *testing.T) {
	r := publish(t)
	r.hide()
	r.drop(t, class("w"))
	r.run(t, r.replanned(t)...)
	r.expect(t, "without the class", map[capacity.Key]int64{}, "delete", "delete", "delete")
	if err := r.api.Create(t.Context(), class("w")); err != nil {
		t.Fatal(err)
	}
	r.run(t, r.replanned(t)...)
	r.expect(t, "with the class", map[capacity.Key]int64{inA: 10, inB: 20}, "create", "create", "create")
}

// An object that was deleted while the watch was interrupted is created again at a later poll.
func TestObjectThatIsDeletedUnseen(t *testing.T) {
	r := publish(t)
	r.hide()
	for _, o := range r.list(t) {
		r.drop(t, &o)
	}
	r.run(t, inA, inB)
	r.expect(t, "soon", map[capacity.Key]int64{}, "delete", "delete")
	r.clock.Step(time.Minute)
	r.run(t, inA, inB)
	r.expect(t, "at a later poll", map[capacity.Key]int64{inA: 10, inB: 20}, "create", "create")
}

// S-9: when GetCapacity fails, the last capacity stays published until MaxAge and is then
// withdrawn.
func TestFailingSegment(t *testing.T) {
	r := publish(t)
	r.driver.fails = status.Error(codes.Unavailable, "down")
	if after := r.run(t, inA); after <= 0 || after > time.Minute {
		t.Errorf("tried again in %s", after)
	}
	r.expect(t, "at first", map[capacity.Key]int64{inA: 10, inB: 20})
	if state := r.State(); state.Failing["w"] != 1 {
		t.Errorf("state %+v", state)
	}
	r.clock.Step(15 * time.Minute)
	r.run(t, inA)
	r.expect(t, "after capacity-max-age", map[capacity.Key]int64{inA: -1, inB: 20}, "update")
	r.driver.fails = nil
	r.run(t, inA)
	r.expect(t, "when it answers again", map[capacity.Key]int64{inA: 10, inB: 20}, "update")
	if state := r.State(); state.Failing["w"] != 0 {
		t.Errorf("state %+v", state)
	}
}

// S-13: the objects are deleted with the class, or with the last node of a segment.
func TestKeysThatAreGone(t *testing.T) {
	r := publish(t)
	r.drop(t, node("n2", "b"))
	keys := r.replanned(t)
	if !slices.Contains(keys, inB) || slices.Contains(keys, inA) {
		t.Errorf("without the node: %v", keys)
	}
	r.run(t, inB)
	r.expect(t, "without the node", map[capacity.Key]int64{inA: 10}, "delete", "delete")
	r.drop(t, class("w"))
	r.run(t, r.replanned(t)...)
	r.expect(t, "without the class", map[capacity.Key]int64{}, "delete", "delete")
}

// S-13: a rollout of the node plugin takes the CSINode's entry for a while. The object keeps its uid, also
// with a new leader; after the grace period it is deleted.
func TestRolloutOfTheNodePlugin(t *testing.T) {
	r := publish(t)
	r.drop(t, csiNode("n2"))
	r.run(t, r.replanned(t)...)
	r.expect(t, "unregistered", map[capacity.Key]int64{inA: 10, inB: 20}, "delete")

	r.clock.Step(capacity.Grace / 2)
	next := newRig(t)
	next.over(r.api)
	next.Cached, next.Objects.(*objects).Reader = r.api, r.api
	next.clock.SetTime(r.clock.Now())
	result, err := next.replan(t.Context(), planKey{})
	if err != nil || result.RequeueAfter != capacity.Grace {
		t.Errorf("a new leader replans after %s, %v", result.RequeueAfter, err)
	}
	next.run(t, next.enqueued()...)
	r.expect(t, "a new leader", map[capacity.Key]int64{inA: 10, inB: 20})

	if err := r.api.Create(t.Context(), csiNode("n2")); err != nil {
		t.Fatal(err)
	}
	r.run(t, r.replanned(t)...)
	r.expect(t, "registered", map[capacity.Key]int64{inA: 10, inB: 20}, "create")
	r.drop(t, csiNode("n2"))
	r.run(t, r.replanned(t)...)
	r.clock.Step(capacity.Grace)
	r.run(t, r.replanned(t)...)
	r.expect(t, "after the grace period", map[capacity.Key]int64{inA: 10}, "delete", "delete")
}

// drop deletes an object, which counts as a write.
func (r *rig) drop(t *testing.T, o client.Object) {
	t.Helper()
	if err := r.api.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// S-20: the objects that instances on removed nodes published are deleted, others stay.
func TestLeftoversOfNodes(t *testing.T) {
	of := func(name, driver, manager string) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
				names.LabelCapacityDriver: driver, names.LabelCapacityManagedBy: manager,
			}},
			StorageClassName: "w", NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"node": name}},
		}
	}
	odd := of("odd", driverName, names.CapacityManager(""))
	odd.NodeTopology.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpExists}}
	r := newRig(t, of("gone", driverName, names.CapacityManager("n9")), of("there", driverName, names.CapacityManager("n1")),
		of("foreign", "other", names.CapacityManager("n9")), odd)
	r.replanned(t)
	var left []string
	for _, o := range r.list(t) {
		left = append(left, o.Name)
	}
	if !slices.Equal(left, []string{"foreign", "there"}) {
		t.Errorf("left: %q", left)
	}
}

// S-12: an object that another client changed is enqueued; the watch event of this process' own
// write enqueues nothing.
func TestObjectEvents(t *testing.T) {
	r := publish(t)
	var own, foreign storagev1.CSIStorageCapacity
	for _, o := range r.list(t) {
		if key, _ := capacity.KeyOf(&o); key == inA {
			own = o
		}
	}
	changed := own.DeepCopy()
	changed.Capacity = resource.NewQuantity(999, resource.BinarySI)
	foreign = *own.DeepCopy()
	foreign.Labels = map[string]string{names.LabelCapacityDriver: "other"}
	stray := own.DeepCopy()
	stray.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "z"}}
	type seen = *storagev1.CSIStorageCapacity
	for _, tc := range []struct {
		what string
		tell func()
		want int
	}{
		{"our own write", func() {
			r.objectChanges().Update(t.Context(), event.TypedUpdateEvent[seen]{ObjectOld: changed, ObjectNew: &own}, r.keys)
		}, 0},
		{"changed", func() {
			r.objectChanges().Update(t.Context(), event.TypedUpdateEvent[seen]{ObjectOld: &own, ObjectNew: changed}, r.keys)
		}, 1},
		{"deleted", func() { r.objectChanges().Delete(t.Context(), event.TypedDeleteEvent[seen]{Object: &own}, r.keys) }, 1},
		{"not planned", func() { r.objectChanges().Create(t.Context(), event.TypedCreateEvent[seen]{Object: stray}, r.keys) }, 1},
		{"of another driver", func() { r.objectChanges().Create(t.Context(), event.TypedCreateEvent[seen]{Object: &foreign}, r.keys) }, 0},
	} {
		tc.tell()
		if got := r.enqueued(); len(got) != tc.want {
			t.Errorf("%s: enqueues %v", tc.what, got)
		}
	}
}

// An object that another client deletes again and again is created after growing delays.
func TestUndoneObject(t *testing.T) {
	r := publish(t)
	var delays []time.Duration
	for range fewUndone + 4 {
		after := r.answers.undone(inA, r.backoff())
		delays = append(delays, after)
		r.clock.Step(after + time.Millisecond)
	}
	want := []time.Duration{0, 0, 0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
	if !slices.Equal(delays, want) {
		t.Errorf("delays %v, want %v", delays, want)
	}
	r.clock.Step(undoneWithin)
	if after := r.answers.undone(inA, r.backoff()); after != 0 {
		t.Errorf("a later change is repaired after %s", after)
	}
}

// S-15: the deletion of a volume enqueues the capacities of its segments.
func TestVolumeDeletions(t *testing.T) {
	r := publish(t)
	pv := func(driver, zone string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		if zone != "" {
			pv.Spec.NodeAffinity = topology.Affinity([]*csi.Topology{{Segments: map[string]string{"zone": zone}}})
		}
		return pv
	}
	for _, tc := range []struct {
		what string
		pv   *corev1.PersistentVolume
		want []capacity.Key
	}{
		{"in a zone", pv(driverName, "b"), []capacity.Key{inB}},
		{"of another driver", pv("other", "b"), nil},
		{"without a place", pv(driverName, ""), nil},
		{"no CSI volume", &corev1.PersistentVolume{}, nil},
	} {
		r.volumeDeletions().Delete(t.Context(), event.TypedDeleteEvent[*corev1.PersistentVolume]{Object: tc.pv}, r.keys)
		if got := r.enqueued(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: enqueues %v, want %v", tc.what, got, tc.want)
		}
	}
}

// S-15: CreateVolume enqueues the capacities of the volume's segment. A failed one enqueues that of
// the preferred segment, whose published capacity is probably wrong.
func TestObserve(t *testing.T) {
	r := publish(t)
	in := func(zone string) []*csi.Topology { return []*csi.Topology{{Segments: map[string]string{"zone": zone}}} }
	request := &csi.CreateVolumeRequest{AccessibilityRequirements: &csi.TopologyRequirement{Preferred: slices.Concat(in("a"), in("b"))}}
	for _, tc := range []struct {
		what   string
		placed []*csi.Topology
		fails  error
		want   []capacity.Key
	}{
		{"in one zone", in("b"), nil, []capacity.Key{inB}},
		{"anywhere", nil, nil, []capacity.Key{inA, inB}},
		{"failed", nil, status.Error(codes.ResourceExhausted, "full"), []capacity.Key{inA}},
	} {
		r.driver.placed, r.driver.fails = tc.placed, tc.fails
		if _, err := r.Observe(r.driver).CreateVolume(t.Context(), request); !errors.Is(err, tc.fails) {
			t.Errorf("%s: %v", tc.what, err)
		}
		if got := r.enqueued(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: enqueues %v, want %v", tc.what, got, tc.want)
		}
	}
}

// S-14: the first polls are spread over the whole interval, and later polls keep the spread.
func TestPolls(t *testing.T) {
	r := publish(t)
	pause := func(random float64) time.Duration {
		r.random = random
		s, err := r.Gather(t.Context(), inA)
		if err != nil {
			t.Fatal(err)
		}
		return r.pause(s)
	}
	if least, most := pause(0), pause(0.999); least > 5*time.Second || most < 59*time.Second || most > time.Minute {
		t.Errorf("first polls after %s to %s", least, most)
	}
	r.run(t, inA)
	if least, most := pause(0), pause(0.999); least < 55*time.Second || most > 65*time.Second {
		t.Errorf("later polls after %s to %s", least, most)
	}
}

// S-21: the metrics have the number of planned and of published capacities, and the age of the
// data.
func TestState(t *testing.T) {
	r := newRig(t)
	if state := r.State(); state.Goal != 0 || state.Current != 0 {
		t.Errorf("before the first plan: %+v", state)
	}
	r.replanned(t)
	r.run(t, inA)
	r.clock.Step(time.Minute)
	if state := r.State(); state.Goal != 2 || state.Current != 1 || state.Obsolete != 0 || state.Oldest["w"] != time.Minute {
		t.Errorf("one of two: %+v", state)
	}
	r.drop(t, node("n1", "a"))
	r.replanned(t)
	if state := r.State(); state.Goal != 1 || state.Current != 0 || state.Obsolete != 1 {
		t.Errorf("its node is gone: %+v", state)
	}
}

// A process that is not the leader has no queue: events do nothing. When it becomes the leader, all
// keys are enqueued.
func TestWithoutQueue(t *testing.T) {
	r := newRig(t)
	r.queue.Store(nil)
	if keys := r.replanned(t); len(keys) > 0 {
		t.Errorf("enqueued %v", keys)
	}
	if _, err := r.Observe(r.driver).CreateVolume(t.Context(), &csi.CreateVolumeRequest{}); err != nil {
		t.Error(err)
	}
}
