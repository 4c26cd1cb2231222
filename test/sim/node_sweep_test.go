package sim

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// nodeDelays are the settings of the competition: none, so that all nodes write at once, and
// upstream's default.
var nodeDelays = []time.Duration{0, 20 * time.Second}

// nodeFaults are the answers of a driver that are not OK.
var nodeFaults = []csidriver.Fault{
	{Code: codes.ResourceExhausted},
	{Code: codes.Internal, Effect: csidriver.Done},
	{Code: codes.Unavailable, Effect: csidriver.Done},
	{Code: codes.DeadlineExceeded, Effect: csidriver.Late, After: 9 * time.Second},
	{Shape: csidriver.Small},
}

// nodeSchedules are a crash before and after every operation, and every fault of every call; in a
// reduced run some of them.
func nodeSchedules(free *nodeWorld) (all []nodeSchedule) {
	for n := 1; n <= free.ops; n++ {
		all = append(all, nodeSchedule{crashAt: n}, nodeSchedule{crashAt: n, before: true})
	}
	for _, n := range free.calls {
		for _, f := range nodeFaults {
			all = append(all, nodeSchedule{faultAt: n, fault: f}, nodeSchedule{faultAt: n, fault: f, crashAt: n + 1})
		}
	}
	if os.Getenv("SIM") == "whole" {
		return all
	}
	var some []nodeSchedule
	for i := 0; i < len(all); i += 11 {
		some = append(some, all[i])
	}
	return some
}

// TestNodeFaultFree: N-1 to N-16. One owner for each claim, one CreateVolume, one DeleteVolume on the
// node of the volume.
func TestNodeFaultFree(t *testing.T) {
	for _, delay := range nodeDelays {
		w := runNodes(t, delay, nodeSchedule{}, nodeMutant{})
		if len(w.violations) > 0 {
			t.Errorf("delay %s:\n%s\n%s", delay, strings.Join(w.violations, "\n"), strings.Join(w.trace, "\n"))
		}
		t.Logf("delay %s: %d operations, CreateVolume by node and volume %v", delay, w.ops, w.creates)
	}
}

// TestNodeSweep crashes an instance at every operation, and has every call fail in every way.
func TestNodeSweep(t *testing.T) {
	began, runs := time.Now(), 0
	for _, delay := range nodeDelays {
		for _, s := range nodeSchedules(runNodes(t, delay, nodeSchedule{}, nodeMutant{})) {
			w := runNodes(t, delay, s, nodeMutant{})
			runs++
			if len(w.violations) > 0 {
				t.Fatalf("delay %s, %s:\n%s\n%s", delay, s, strings.Join(w.violations, "\n"), strings.Join(w.trace, "\n"))
			}
		}
	}
	fmt.Printf("instances per node: %d schedules, 0 violations, in %s\n", runs, time.Since(began).Round(time.Second))
}

// forcing takes a claim whatever another node has written meanwhile. Its write is slow, so that both
// nodes have read the claim before either writes it.
type forcing struct{ client.Client }

func (f forcing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && claim.Annotations[names.AnnSelectedNode] != "" {
		time.Sleep(forcedWrite)
		now := &corev1.PersistentVolumeClaim{}
		if err := f.Get(ctx, client.ObjectKeyFromObject(claim), now); err != nil {
			return err
		}
		claim.ResourceVersion = now.ResourceVersion
	}
	return f.Client.Update(ctx, o, opts...)
}

const forcedWrite = 30 * time.Second

var nodeMutants = []nodeMutant{
	{name: "a claim is taken without its resourceVersion", client: func(c client.Client) client.Client { return forcing{c} }},
	{name: "volumes of other nodes are seen", isHere: func(pv *corev1.PersistentVolume) bool { return pv.Spec.CSI != nil }},
	{name: "no volume is of this node", isHere: func(*corev1.PersistentVolume) bool { return false }},
	{name: "an instance works for all nodes", options: func(o *provision.Options) { o.Node.Name = "" }},
	{name: "all instances are of one node", options: func(o *provision.Options) { o.Node.Name = "n1" }},
	{name: "no instance takes claims", options: func(o *provision.Options) { o.Node.Immediate = false }},
	{name: "all instances share a journal", journal: func(string) string { return "journal" }},
}

// TestNodeMutants breaks the instances in one way after the other; a run without faults must notice
// each.
func TestNodeMutants(t *testing.T) {
	killed := 0
	for _, m := range nodeMutants {
		before := killed
		for _, delay := range nodeDelays {
			if w := runNodes(t, delay, nodeSchedule{}, m); len(w.violations) > 0 {
				killed++
				break
			}
		}
		if killed == before {
			t.Errorf("%s: no invariant notices it", m.name)
		}
	}
	fmt.Printf("instances per node: %d of %d mutants killed\n", killed, len(nodeMutants))
}
