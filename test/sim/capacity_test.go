package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacities "github.com/purser-csi/purser/internal/capacity"
	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// publisher is the role that publishes capacities.
const publisher role = "csi-provisioner with capacities"

// pollEvery is the time between two GetCapacity calls for one segment.
const pollEvery = time.Minute

var capacitiesAlone = &processSet{
	ours: []role{publisher}, startOthers: alone, check: end.ofCapacities, disturb: (*world).unregister,
	kinds: []client.Object{&storagev1.StorageClass{}, &corev1.Node{}, &storagev1.CSINode{}, &corev1.PersistentVolume{}, &storagev1.CSIStorageCapacity{}},
}

// runPublisher builds the controller as internal/roles does. The objects have a cache of their own.
func (p *process) runPublisher() {
	m := p.world.mutant
	api := client.Client(gatedClient{Client: p.world.server.Client(), process: p})
	cached := client.Reader(p.view)
	if m.client != nil {
		api = m.client(api, p.view)
	}
	if m.cached != nil {
		cached = m.cached(cached)
	}
	mgr := m.manager(p.view, api)
	c := capacities.New(capacities.Config{
		Settings: p.settings(2), Cached: cached, Objects: p.second, Live: api, Writer: api, CSI: gatedDriver{process: p},
		Timeout: callTimeout, Poll: pollEvery, Locks: &csirpc.VolumeLocks{}, InFlight: measures.InFlight, Random: func() float64 { return 0.5 },
		Rules: capacity.Rules{Driver: driverName, Namespace: namespace, ManagedBy: names.CapacityManager("")},
	})
	if err := c.AddTo(p.ctx, mgr); err != nil {
		panic(err)
	}
	go func() { _ = p.view.Start(p.ctx) }()
	p.begin(mgr)
}

// GetCapacity implements csi.ControllerClient.
func (d gatedDriver) GetCapacity(
	ctx context.Context, in *csi.GetCapacityRequest, _ ...grpc.CallOption,
) (*csi.GetCapacityResponse, error) {
	w, node := d.process.world, in.GetAccessibleTopology().GetSegments()[csidriver.KeyNode]
	out := &csi.GetCapacityResponse{}
	err := d.process.do(op{text: "GetCapacity " + node, call: true}, func(n int) (err error) {
		out.AvailableCapacity, err = w.driver.Capacity(ctx, node, w.schedule.faultOf(n))
		return err
	})
	return out, asCall(err)
}

// unregister is a rollout of the node plugin: the driver goes from all nodes, and is back after a while.
func (w *world) unregister() {
	u := &user{world: w, api: w.server.Client()}
	before := map[string][]storagev1.CSINodeDriver{}
	for _, node := range apiserver.Objects(w.server, &storagev1.CSINode{}) {
		before[node.Name] = u.registerDrivers(node.Name, nil)
	}
	go func() {
		time.Sleep(20 * time.Second)
		for name, drivers := range before {
			if len(drivers) > 0 {
				u.registerDrivers(name, drivers)
			}
		}
	}()
}

var capacityWorkloads = []workload{
	{name: "two nodes", small: true, repeated: true, polls: true, processSet: capacitiesAlone, setup: delayedOn("a", "b"), script: func(u *user) {
		u.untilPublished(2)
	}},
	{name: "a rollout of the node plugin", small: true, repeated: true, polls: true, processSet: capacitiesAlone, setup: delayedOn("a", "b"), script: func(u *user) {
		u.untilPublished(2)
		u.world.unregister()
		u.pause(25 * time.Second)
	}},
	{name: "a node goes", small: true, repeated: true, polls: true, processSet: capacitiesAlone, setup: delayedOn("a", "b"), script: func(u *user) {
		u.untilPublished(2)
		u.removeNode("b")
		u.untilPublished(1)
	}},
	{name: "another program deletes capacities", few: true, repeated: true, contested: true, polls: true, processSet: capacitiesAlone, setup: delayedOn("a"), script: func(u *user) {
		u.untilPublished(1)
		u.undo(4*time.Second, func() error {
			deleteObjects(u.world, &storagev1.CSIStorageCapacity{})
			return nil
		})
		u.untilPublished(1)
	}},
	{name: "the class goes and another comes", repeated: true, polls: true, processSet: capacitiesAlone, setup: delayedOn("a"), script: func(u *user) {
		u.untilPublished(1)
		u.world.dropClasses()
		u.untilPublished(0)
		delayed(u)
		u.untilPublished(1)
	}},
}

func (u *user) untilPublished(count int) {
	u.until(func() bool { return len(apiserver.Objects(u.world.server, &storagev1.CSIStorageCapacity{})) == count })
}

// ofCapacities checks that each class has one object for each node, with what the driver says, and that none
// was deleted while its node and class were there.
func (e end) ofCapacities() {
	wanted := map[string]bool{}
	for _, class := range apiserver.Objects(e.server, &storagev1.StorageClass{}) {
		for _, node := range apiserver.Objects(e.server, &corev1.Node{}) {
			wanted[class.Name+" "+node.Labels[csidriver.KeyNode]] = true
		}
	}
	for _, o := range apiserver.Objects(e.server, &storagev1.CSIStorageCapacity{}) {
		if key := publishedFor(o); !wanted[key] {
			e.violate("CA1: capacity %s is published once more, or for no class and node", key)
		} else {
			delete(wanted, key)
		}
		if o.Capacity == nil || o.Capacity.Value() != csidriver.Room {
			e.violate("CA2: the capacity of %s is %s", publishedFor(o), o.Capacity)
		}
	}
	for key := range wanted {
		e.violate("CA1: capacity %s is not published", key)
	}
	e.keptWithNodes()
}

func publishedFor(o *storagev1.CSIStorageCapacity) string {
	return o.StorageClassName + " " + o.NodeTopology.MatchLabels[csidriver.KeyNode]
}

// keptWithNodes is CA3, for the deletions that happened while the node and the class existed.
func (e end) keptWithNodes() {
	exists := func(kind client.Object, name string, at int64) bool {
		var there bool
		for _, change := range e.server.History(kind, 0) {
			if change.Object.GetName() == name && change.At <= at {
				there = change.Type != watch.Deleted
			}
		}
		return there
	}
	for _, change := range e.server.History(&storagev1.CSIStorageCapacity{}, 0) {
		o := change.Object.(*storagev1.CSIStorageCapacity)
		if node := o.NodeTopology.MatchLabels[csidriver.KeyNode]; change.Type == watch.Deleted && e.onlyUnregisters() &&
			exists(&corev1.Node{}, node, change.At) && exists(&storagev1.StorageClass{}, o.StorageClassName, change.At) {
			e.violate("CA3: the capacity of %s is deleted while the node exists", publishedFor(o))
		}
	}
}

// onlyUnregisters reports whether nothing but rollouts and crashes can have a capacity deleted. A capacity that is
// created by a write that arrives late is deleted if its node has no driver by then.
func (e end) onlyUnregisters() bool {
	s := e.schedule
	return !e.work.few && s.rivalAt == 0 && len(s.views) == 0 && s.recreateClassAt == 0 && s.slowFor == 0
}

// nodesOfDriver hides the nodes on which the driver is not registered.
type nodesOfDriver struct{ client.Reader }

// List implements client.Reader.
func (n nodesOfDriver) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := n.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	nodes, is := list.(*corev1.NodeList)
	if !is {
		return nil
	}
	var registered storagev1.CSINodeList
	if err := n.Reader.List(ctx, &registered); err != nil {
		return err
	}
	nodes.Items = slices.DeleteFunc(slices.Clone(nodes.Items), func(node corev1.Node) bool {
		return !slices.ContainsFunc(registered.Items, func(c storagev1.CSINode) bool { return c.Name == node.Name && len(c.Spec.Drivers) > 0 })
	})
	return nil
}

var capacityMutants = []mutant{
	{name: "withdraws capacities during a rollout", cached: func(r client.Reader) client.Reader { return nodesOfDriver{r} }},
	{name: "never deletes a capacity", client: hooks{delete: func(context.Context, client.Client, client.Object, []client.DeleteOption) error {
		return nil
	}}.client},
}

var capacityFamilies = []family{
	{"crash", crashes, false},
	{"crash, and the driver is unregistered while we are down", crashesWithDeletion, false},
	{"the driver is unregistered", deletions, false},
	{"ended in order", ends, false},
	{"lost answer", lostAnswers, false},
	{"driver", driverFaults, false},
	{"watch", bindingWatchFaults, true},
	{"two leaders", rivals, true},
	{"outage", outages, true},
	{"the clock is set forward", clockJumps, false},
	{"two crashes", pairs, false},
	{"anything together", randomSchedules, false},
}

var capacityPart = sweepPart{
	"capacities", capacityWorkloads, capacityFamilies, capacityMutants,
	extent{every: 3, pairs: 40, wide: 18, chances: 30},
	extent{every: 40, pairs: 4, wide: 150, chances: 6},
}

// TestCapacityFaultFree is every workload without faults.
func TestCapacityFaultFree(t *testing.T) { capacityPart.faultFree(t) }

// TestCapacitySweep runs everything that can go wrong against every workload of capacities.
func TestCapacitySweep(t *testing.T) { capacityPart.sweepAll(t) }

// TestCapacityMutants breaks the publisher in one way after the other; the sweep must notice each.
func TestCapacityMutants(t *testing.T) { capacityPart.killAllMutants(t) }
