package live

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/rolestest"
)

// heartbeat renews the lease of a node, as its kubelet does, until end is called, which simulates
// the death of the node.
func (p liveCluster) heartbeat(node string) (end func()) {
	p.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	rolestest.Eventually(p.T, "the namespace of the leases", func() error {
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: new(metav1.NowMicro())}
		return client.IgnoreAlreadyExists(p.user.Create(p.Context(), lease))
	})
	return rolestest.InBackground(p.T, func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(200 * time.Millisecond):
			}
			before := client.MergeFrom(lease.DeepCopy())
			lease.Spec.RenewTime = new(metav1.NowMicro())
			_ = p.user.Patch(ctx, lease, before) // the next one follows
		}
	})
}

// dies ends the heartbeat of a node, and waits until the node lifecycle controller marks the node
// as unreachable.
func (p liveCluster) dies(node string, end func()) {
	p.Helper()
	end()
	await(p, "node "+node+" is not ready", &corev1.Node{ObjectMeta: metav1Name(node)}, func(n *corev1.Node) bool {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionUnknown
			}
		}
		return false
	})
}

func (p liveCluster) forceDelete(pod *corev1.Pod) {
	p.Helper()
	if err := p.user.Delete(p.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		p.Fatal(err)
	}
}

// 4.4 step 4, R7, R8: two nodes die one after the other while they report a volume in use, and the
// node lifecycle controller of kube-controller-manager marks them as unreachable. The volume is
// detached from the first node after the timeout and not before, and from the second one at once,
// since it has the taint out-of-service.
func TestKilledNodes(t *testing.T) {
	const timer = 6 * time.Second
	d := newExclusiveDisks()
	detached := make(chan time.Time, 10)
	unpublish := d.unpublish
	d.unpublish = func(r *csi.ControllerUnpublishVolumeRequest) error {
		detached <- time.Now()
		return unpublish(r)
	}
	p := newLiveClusterOn(t, rolestest.StartServer(t, cluster.Config{
		Components:  cluster.Components{cluster.ControllerManager},
		Controllers: append(cluster.HousekeepingControllers(), "node-lifecycle-controller"),
		ExtraArgs: map[cluster.Component][]string{
			cluster.ControllerManager: {"--node-monitor-period=250ms", "--node-monitor-grace-period=4s"},
		},
	}))
	address := p.attachingWith(d, "--force-detach-after="+timer.String())
	p.readyNode("c", d.name)
	ends := map[string]func(){}
	for _, node := range []string{"a", "b", "c"} {
		ends[node] = p.heartbeat(node)
	}
	claim := p.boundPair("data", d.name)
	unique := corev1.UniqueVolumeName(names.UniqueVolumeName(d.name, "h-data"))
	uses := func(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique} }
	forced := func() (reasons []string) {
		for _, m := range scrape(t, address()+"/metrics")[telemetry.MetricForcedDetaches.Name].GetMetric() {
			reasons = append(reasons, fmt.Sprintf("%s %v", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
		}
		slices.Sort(reasons)
		return reasons
	}

	first := p.podOn("first", "a", claim.Name)
	p.lists("a", 1)
	p.editNode("a", uses)
	p.dies("a", ends["a"])
	deleted := time.Now()
	p.forceDelete(first)
	second := p.podOn("second", "b", claim.Name)
	p.lists("b", 1)
	took := (<-detached).Sub(deleted)
	if t.Logf("R7: detached %s after the pod was deleted", took); took < timer {
		t.Errorf("R7: detached %s after the pod was deleted, the timer is %s", took, timer)
	}
	if got := forced(); !slices.Equal(got, []string{"timeout 1"}) {
		t.Errorf("forced detaches: %v", got)
	}

	p.editNode("b", uses)
	p.dies("b", ends["b"])
	node := &corev1.Node{}
	if err := p.user.Get(t.Context(), client.ObjectKey{Name: "b"}, node); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(node.DeepCopy())
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
		Key: names.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
	})
	if err := p.user.Patch(t.Context(), node, before); err != nil {
		t.Fatal(err)
	}
	p.forceDelete(second)
	p.podOn("third", "c", claim.Name)
	p.lists("c", 1)
	if got := forced(); !slices.Equal(got, []string{"out-of-service 1", "timeout 1"}) {
		t.Errorf("R8: forced detaches: %v", got)
	}
	d.conflicts.Range(func(volume, _ any) bool { t.Errorf("volume %v was asked for two nodes", volume); return true })
}
