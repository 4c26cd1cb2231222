package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// nodeSchedule is what goes wrong in one run, by the number of the operation.
type nodeSchedule struct {
	crashAt int
	before  bool // the operation that the crash is at
	faultAt int
	fault   csidriver.Fault
	again   csidriver.Fault // of the next call that is the same
	shared  bool            // one backend for all nodes, without topology, that makes ids from names
	moved   bool            // while an instance is dead, its claims without a volume are given to another node by hand
}

func (s nodeSchedule) String() string {
	return fmt.Sprintf("crash at %d (before it: %v), fault %+v at %d, then %+v, shared backend: %v, claims moved: %v",
		s.crashAt, s.before, s.fault, s.faultAt, s.again, s.shared, s.moved)
}

// faultOf is what goes wrong with an operation.
func (w *nodeWorld) faultOf(n int, text string) (fault csidriver.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case n == w.schedule.faultAt:
		fault, w.failed = w.schedule.fault, text
	case w.failed == text:
		fault, w.failed = w.schedule.again, ""
	}
	return fault
}

// moveFrom is an administrator who gives the claims of a dead instance to the next node.
func (w *nodeWorld) moveFrom(node string) {
	time.Sleep(time.Second)
	volumes := map[string]bool{}
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		volumes[pv.Name] = true
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if claim.Annotations[names.AnnSelectedNode] == node && !volumes["pvc-"+string(claim.UID)] {
			w.mu.Lock()
			w.moved[node+" pvc-"+string(claim.UID)] = true
			w.mu.Unlock()
			claim.Annotations[names.AnnSelectedNode] = simNodes[(slices.Index(simNodes, node)+1)%len(simNodes)]
			w.log("claim %s is moved to %s: %s", claim.Name, claim.Annotations[names.AnnSelectedNode], said(w.server.Client().Update(w.ctx, claim)))
		}
	}
}

// backendOf is the one backend of all nodes, or one of its own.
func (w *nodeWorld) backendOf(node string) *csidriver.Driver {
	if w.schedule.shared && node != simNodes[0] {
		return w.backends[simNodes[0]]
	}
	d := csidriver.New()
	d.Named = w.schedule.shared
	return d
}

// sharedSchedules are of nodes with one backend: a call with an unknown outcome and then no room; and
// an instance that is killed, while its claims are given to another node.
func sharedSchedules(free *nodeWorld) (all []nodeSchedule) {
	for _, n := range free.calls {
		for _, f := range nodeFaults[2:4] {
			all = append(all, nodeSchedule{shared: true, faultAt: n, fault: f, again: csidriver.Fault{Code: codes.ResourceExhausted}})
		}
		all = append(all, nodeSchedule{shared: true, crashAt: n, moved: true})
	}
	return all
}

// TestNodeSharedBackend: N-9. Where the nodes share a backend that makes ids from names, no instance
// deletes the volume that the instance of another node has for the claim.
func TestNodeSharedBackend(t *testing.T) {
	killed := false
	for _, delay := range nodeDelays {
		free := runNodes(t, delay, nodeSchedule{shared: true}, nodeMutant{})
		for _, s := range append(sharedSchedules(free), free.schedule) {
			if w := runNodes(t, delay, s, nodeMutant{}); len(w.violations) > 0 {
				t.Fatalf("delay %s, %s:\n%s\n%s", delay, s, strings.Join(w.violations, "\n"), strings.Join(w.trace, "\n"))
			}
			killed = killed || len(runNodes(t, delay, s, nodeMutant{ownOnly: true}).violations) > 0
		}
	}
	if !killed {
		t.Error("no invariant notices that a handle is looked for among the volumes of the node only")
	}
}
