package provision

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/topology"
)

// nodeDriver has room for so many bytes, and notes each call.
type nodeDriver struct {
	csi.ControllerClient
	mu    sync.Mutex
	room  int64
	asked int
	fails codes.Code
}

func (d *nodeDriver) GetCapacity(ctx context.Context, _ *csi.GetCapacityRequest, _ ...grpc.CallOption) (*csi.GetCapacityResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, status.Error(codes.Internal, "H-27: GetCapacity without a deadline")
	}
	if d.fails != codes.OK {
		return nil, status.Error(d.fails, "no answer")
	}
	return &csi.GetCapacityResponse{AvailableCapacity: d.room}, nil
}

// forNode makes the rig an instance for node n1.
func forNode(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, withoutSecrets, func(class *storagev1.StorageClass) {
		class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
	})
	r.Driver.HasTopology = true
	r.Driver.Controller[csi.ControllerServiceCapability_RPC_GET_CAPACITY] = true
	r.Options.Topology = topology.Rules{Immediate: true}
	r.Options.Node = provision.NodeOptions{
		Name: "n1", Segments: map[string]string{"zone": "a"}, Immediate: true, BaseDelay: 20 * time.Second, MaxDelay: time.Minute,
	}
	return r
}

// await lets as much time pass as the last run said.
func (r *rig) await(t *testing.T) {
	t.Helper()
	after := r.run(t)
	r.clock.Step(after)
	r.run(t)
}

// N-5 to N-7, N-16: the run ends at once and comes back when the delay has passed; then the claim
// names the node, and only then the driver is asked for a volume.
func TestOwnership(t *testing.T) {
	for _, tc := range []struct {
		row   string
		room  int64
		fails codes.Code
		owner string
	}{
		{"N-7 there is room", 1 << 40, codes.OK, "n1"},
		{"N-6 there is none", 1, codes.OK, ""},
		{"N-6 the driver does not say", 0, codes.Unavailable, "n1"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := forNode(t)
			r.CSI = &nodeDriver{ControllerClient: r.CSI, room: tc.room, fails: tc.fails}
			if after := r.run(t); after <= 0 || after > 20*time.Second || len(r.driver.created) > 0 {
				t.Fatalf("N-5: again after %s, %d calls", after, len(r.driver.created))
			}
			r.await(t)
			if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != tc.owner || len(r.driver.created) > 0 || r.journal.Len() > 0 {
				t.Fatalf("the claim is for %q, want %q; %d calls, %d journal entries", got, tc.owner, len(r.driver.created), r.journal.Len())
			}
			r.run(t)
			if want := map[string]int{"n1": 1}[tc.owner]; len(r.driver.created) != want {
				t.Errorf("CreateVolume %d times, want %d", len(r.driver.created), want)
			}
		})
	}
}

// racing has another node take the claim between the read and the write.
type racing struct {
	client.Writer
	first func()
}

func (w racing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	w.first()
	return w.Writer.Update(ctx, o, opts...)
}

// N-7, N-9: of two nodes that take a claim at once, one is refused by the API server, waits longer,
// and then sees the other. A claim that comes back is taken later than by nodes that were not full.
func TestLostOwnership(t *testing.T) {
	r := forNode(t)
	r.CSI = &nodeDriver{ControllerClient: r.CSI, room: 1 << 40}
	r.Writer = racing{r.Writer, func() { r.choose(t, "n2") }}
	after := r.run(t)
	r.clock.Step(after)
	if again := r.run(t); again < 20*time.Second || again > 40*time.Second || r.memory.get(r.key.UID).ownership.Attempts != 1 {
		t.Errorf("N-7: again after %s, %+v", again, r.memory.get(r.key.UID).ownership)
	}
	r.clock.Step(time.Minute)
	if r.run(t) != 0 || r.claim(t).Annotations[names.AnnSelectedNode] != "n2" || len(r.driver.created) > 0 {
		t.Error("N-2: the claim of another node is worked on")
	}
	r.memory.watch().OnUpdate(r.claim(t), r.claim(t))
	if r.memory.get(r.key.UID).ownership != (provision.Ownership{}) {
		t.Error("N-5: the competition is remembered although a node has the claim")
	}
	r.gaveBack(r.key.UID)
	if r.memory.get(r.key.UID).ownership.Attempts != 1 {
		t.Error("N-9: a claim that was given back counts like any other")
	}
}

// N-9: without room the claim is given back, and every node competes again.
func TestFullNodeGivesTheClaimBack(t *testing.T) {
	r := forNode(t)
	r.choose(t, "n1")
	r.driver.create = codes.ResourceExhausted
	r.run(t)
	if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != "" {
		t.Errorf("the claim is for %q", got)
	}
}

// T-31, N-13: no Node and no CSINode is read, and claims of other nodes do not become keys.
func TestInstanceOfOneNodeReadsNoNodes(t *testing.T) {
	r := forNode(t)
	r.Cached, r.Live = r.Cached.Over(nodeless{r.api, t}), nodeless{r.Live, t}
	r.choose(t, "n1")
	r.run(t)
	if len(r.driver.created) != 1 {
		t.Error("no volume")
	}
	r.choose(t, "n2")
	if keys := r.fromClaim(t.Context(), r.claim(t)); len(keys) > 0 {
		t.Errorf("%v", keys)
	}
}

type nodeless struct {
	client.Reader
	t *testing.T
}

func (n nodeless) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *corev1.Node, *storagev1.CSINode:
		n.t.Errorf("%T %s is read", o, key.Name)
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	return n.Reader.Get(ctx, key, o, opts...)
}
