package provision

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/topology"
)

// inZone is a node with the driver.
func inZone(name, zone string) []client.Object {
	node, csiNode := theNode().(*corev1.Node), itsDrivers().(*storagev1.CSINode)
	node.Name, csiNode.Name, node.Labels["zone"] = name, name, zone
	return []client.Object{node, csiNode}
}

// zonesOf returns the preferred zones of a request.
func zonesOf(r *csi.CreateVolumeRequest) (zones []string) {
	for _, place := range r.GetAccessibilityRequirements().GetPreferred() {
		zones = append(zones, place.GetSegments()["zone"])
	}
	return zones
}

// H-7: after a final error the scheduler selects a node in another zone, and that is the zone of the
// next request. After an uncertain one the request is repeated as it was, by another process too,
// whatever node was selected meanwhile.
func TestZoneOfTheNextAttempt(t *testing.T) {
	for _, tc := range []struct {
		row    string
		code   codes.Code
		second string
	}{
		{"H-7 C-41 final", codes.ResourceExhausted, "b"},
		{"H-7 C-43 final", codes.FailedPrecondition, "b"},
		{"C-40 uncertain", codes.Unavailable, "a"},
		{"C-40 uncertain", codes.DeadlineExceeded, "a"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := onNode(t, append(inZone("n1", "a"), inZone("n2", "b")...)...)
			r.Options.Topology = topology.Rules{Strict: true}
			r.driver.create = tc.code
			r.run(t)
			if got := r.claim(t).Annotations[names.AnnSelectedNode]; (got == "") != (tc.code == codes.ResourceExhausted) {
				t.Errorf("C-26: selected node %q", got)
			}
			r.choose(t, "n2")
			r.driver.create = codes.OK
			next := New(r.Config) // it has the journal and nothing else
			r.Controller = next
			r.run(t)
			if len(r.driver.created) != 2 || len(r.records) != 2 {
				t.Fatalf("%d calls, %d requests", len(r.driver.created), len(r.records))
			}
			if first, second := zonesOf(r.records[0].Request), zonesOf(r.records[1].Request); first[0] != "a" || second[0] != tc.second {
				t.Errorf("zones %v, %v", first, second)
			}
		})
	}
}

// T-13, T-16, T-30: the nodes are read once, and again when one of them changes.
func TestSurveyIsKept(t *testing.T) {
	r := newRig(t, withoutSecrets)
	r.Driver.HasTopology, r.Options.Topology = true, topology.Rules{Immediate: true}
	for _, o := range append(inZone("n1", "a"), inZone("n2", "b")...) {
		if err := r.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	zones := func() int {
		return len(r.settled(t).Nodes)
	}
	if got := zones(); got != 2 {
		t.Fatalf("%d zones", got)
	}
	for _, o := range inZone("n3", "c") {
		if err := r.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := zones(); got != 2 {
		t.Errorf("the nodes are read again without a change: %d zones", got)
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
	defer q.ShutDown()
	status := theNode().(*corev1.Node)
	r.fromNode(t.Context(), nodeChange{Old: status, New: status.DeepCopy()}, q)
	if got := zones(); got != 2 {
		t.Errorf("a heartbeat has the nodes read again: %d zones", got)
	}
	r.fromNode(t.Context(), nodeChange{New: status}, q)
	if got := zones(); got != 3 {
		t.Errorf("%d zones", got)
	}
}

// H-8, U-34: the change of a node enqueues the claims that it was selected for, and the removal too.
// A claim without a selected node is enqueued when it waits for the driver to appear.
func TestChangesOfNodes(t *testing.T) {
	node, csiNode := theNode().(*corev1.Node), itsDrivers().(*storagev1.CSINode)
	other := csiNode.DeepCopy()
	other.Spec.Drivers[0].TopologyKeys = []string{"rack"}
	foreign := csiNode.DeepCopy()
	foreign.Spec.Drivers = append(foreign.Spec.Drivers, storagev1.CSINodeDriver{Name: "csi.other"})
	for _, tc := range []struct {
		row      string
		selected string
		failed   bool
		change   func(r *rig, q queue)
		want     int
	}{
		{"H-8 gone", "n1", false, func(r *rig, q queue) { r.fromNode(t.Context(), nodeChange{Old: node}, q) }, 1},
		{"H-8 CSINode gone", "n1", false, func(r *rig, q queue) { r.fromCSINode(t.Context(), csiNodeChange{Old: csiNode}, q) }, 1},
		{"another node", "n2", false, func(r *rig, q queue) { r.fromNode(t.Context(), nodeChange{Old: node}, q) }, 0},
		{"U-34 other keys", "n1", false, func(r *rig, q queue) { r.fromCSINode(t.Context(), csiNodeChange{Old: csiNode, New: other}, q) }, 1},
		{"another driver", "n1", false, func(r *rig, q queue) { r.fromCSINode(t.Context(), csiNodeChange{Old: csiNode, New: foreign}, q) }, 0},
		{"U-34 keys appear", "", true, func(r *rig, q queue) { r.fromCSINode(t.Context(), csiNodeChange{New: csiNode}, q) }, 1},
		{"no attempt yet", "", false, func(r *rig, q queue) { r.fromCSINode(t.Context(), csiNodeChange{New: csiNode}, q) }, 0},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(t, withoutSecrets)
			r.Driver.HasTopology, r.Options.Topology = true, topology.Rules{Immediate: true}
			if tc.selected != "" {
				r.choose(t, tc.selected)
			}
			if tc.failed {
				r.driver.create = codes.FailedPrecondition
				r.run(t)
			}
			r.Cached = kube.NewOverlay(indexed(t, r.claim(t)), r.clock)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[provision.Key]())
			defer q.ShutDown()
			tc.change(r, q)
			if q.Len() != tc.want {
				t.Errorf("enqueued %d, want %d", q.Len(), tc.want)
			}
		})
	}
}
