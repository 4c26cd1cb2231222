package node

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/test/scripted"
)

// registerBySocket does what a registration socket leads to.
func registerBySocket(t *testing.T, a *Agent) *driver {
	t.Helper()
	d := &driver{Driver: scripted.Driver{Name: driverName}}
	d.serve(t, a)
	r, err := a.drivers.connect(t.Context(), driverName, filepath.Join(a.Root, driverName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	if err := a.csiNode.register(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return d
}

func csiNodeOf(t *testing.T, server *api) *storagev1.CSINode {
	t.Helper()
	csiNode := &storagev1.CSINode{}
	if err := server.Get(t.Context(), client.ObjectKey{Name: nodeName}, csiNode); err != nil {
		t.Fatal(err)
	}
	return csiNode
}

func driversOf(csiNode *storagev1.CSINode) string {
	var all []string
	for _, d := range csiNode.Spec.Drivers {
		all = append(all, d.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// ND-9: Node and CSINode that were deleted, or created again, get the drivers once more.
func TestRegistrationIsRestored(t *testing.T) {
	a, server := newAgent(t, theNode())
	a.Given = []GivenDriver{{Name: "given"}}
	registerBySocket(t, a)
	restore := func() {
		t.Helper()
		if err := a.csiNode.restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := func() { // as the watch delivers it
		csiNode := csiNodeOf(t, server)
		must(server.Delete(t.Context(), csiNode))
		a.Cached.Gone(csiNode)
	}
	gone()
	restore()
	if got := csiNodeOf(t, server); driversOf(got) != driverName {
		t.Errorf("after the CSINode was deleted: %+v", got)
	}
	gone()
	must(server.Create(t.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: "node"}}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "given"}, {Name: "gone"}, {Name: driverName, NodeID: "old"}}},
	}))
	must(server.Delete(t.Context(), theNode()))
	a.Cached.Gone(theNode())
	restore() // without a Node nothing is written
	if got := csiNodeOf(t, server); driversOf(got) != driverName+" given gone" {
		t.Errorf("without a Node: %+v", got)
	}
	again := theNode()
	again.UID = "node-2"
	must(server.Create(t.Context(), again))
	restore()
	got := csiNodeOf(t, server)
	if driversOf(got) != driverName+" given" || len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "node-2" {
		t.Errorf("after the Node was created again: %+v", got)
	}
	node := &corev1.Node{}
	must(server.Get(t.Context(), client.ObjectKey{Name: nodeName}, node))
	if node.Annotations[names.AnnNodeID] != `{"d.test":"id"}` {
		t.Errorf("annotations %v", node.Annotations)
	}
	reads, _ := server.counts()
	restore()
	if after, _ := server.counts(); after-reads != 2 { // the two of the cache
		t.Errorf("%d reads with nothing to write", after-reads)
	}
}

// A driver that has gone is not written again.
func TestNothingIsRestoredOfADriverThatHasGone(t *testing.T) {
	a, server := newAgent(t, theNode())
	registerBySocket(t, a)
	if err := a.csiNode.deregister(t.Context(), driverName); err != nil {
		t.Fatal(err)
	}
	if err := a.csiNode.restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := csiNodeOf(t, server); len(got.Spec.Drivers) > 0 {
		t.Errorf("%+v", got)
	}
	if err := server.Delete(t.Context(), theNode()); err != nil {
		t.Fatal(err)
	}
	if err := a.csiNode.deregister(t.Context(), driverName); err != nil {
		t.Errorf("without a Node: %v", err)
	}
}

// ND-8: the limit is read again on the period, and after ResourceExhausted; never without a period.
func TestLimitIsReadAgain(t *testing.T) {
	info := csiDriver(false)
	info.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(60))
	a, server := newAgent(t, theNode(), info)
	now := clocktesting.NewFakeClock(time.Now())
	a.Clock = now
	d := registerBySocket(t, a)
	look := func() int32 {
		t.Helper()
		var asking sync.WaitGroup
		a.csiNode.askDue(t.Context(), &asking)
		asking.Wait()
		if err := a.csiNode.restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		return limit(csiNodeOf(t, server).Spec.Drivers[0])
	}
	set := func(most int64) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.most = most
	}
	set(5)
	if got := look(); got != -1 {
		t.Errorf("before the period: %d", got)
	}
	now.Step(time.Minute)
	if got := look(); got != 5 {
		t.Errorf("after the period: %d", got)
	}
	set(4)
	a.noteExhausted(keyOf("a"), nil)
	now.Step(mounting.MinLimitInterval)
	if got := look(); got != 5 {
		t.Errorf("without a failure: %d", got)
	}
	a.csiNode.exhausted(driverName)
	if got := look(); got != 4 {
		t.Errorf("after ResourceExhausted: %d", got)
	}
	set(3)
	a.csiNode.exhausted(driverName)
	if got := look(); got != 4 {
		t.Errorf("asked again at once: %d", got)
	}
	info.Spec.NodeAllocatableUpdatePeriodSeconds = nil
	if err := server.Update(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	now.Step(time.Hour)
	if got := look(); got != 4 {
		t.Errorf("without a period: %d", got)
	}
}
