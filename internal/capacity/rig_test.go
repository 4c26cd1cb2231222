package capacity

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

const (
	driverName = "csi.example"
	namespace  = "system"
)

// driver answers with a capacity by zone, or with an error.
type driver struct {
	csi.ControllerClient
	room   map[string]int64
	fails  error
	asked  []*csi.GetCapacityRequest
	placed []*csi.Topology // of the volumes that are created
}

func (d *driver) GetCapacity(_ context.Context, r *csi.GetCapacityRequest, _ ...grpc.CallOption) (*csi.GetCapacityResponse, error) {
	d.asked = append(d.asked, r)
	if d.fails != nil {
		return nil, d.fails
	}
	return &csi.GetCapacityResponse{AvailableCapacity: d.room[r.GetAccessibleTopology().GetSegments()["zone"]]}, nil
}

func (d *driver) CreateVolume(context.Context, *csi.CreateVolumeRequest, ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{AccessibleTopology: d.placed}}, d.fails
}

// objects is the cache of capacities: it reads from the API server, or from an older list if stale.
type objects struct {
	cache.Cache
	client.Reader
}

func (o *objects) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return o.Reader.Get(ctx, key, into, opts...)
}

func (o *objects) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return o.Reader.List(ctx, into, opts...)
}

func (*objects) WaitForCacheSync(context.Context) bool { return true }

// rig is a controller with nodes in zones a and b, on an API server that counts writes.
type rig struct {
	*Controller
	api    client.WithWatch
	driver *driver
	clock  *clocktesting.FakeClock
	keys   workqueue.TypedRateLimitingInterface[capacity.Key]
	random float64
	writes []string
	events []string // reasons of events
}

// Event implements the recorder of events.
func (r *rig) Event(_ runtime.Object, _, reason, _ string) { r.events = append(r.events, reason) }

func builder() *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(kube.NewScheme())
	for _, i := range Indexes() {
		b.WithIndex(i.Kind, i.Field, i.Values)
	}
	return b
}

func newRig(t *testing.T, existing ...client.Object) *rig {
	t.Helper()
	r := &rig{driver: &driver{room: map[string]int64{"a": 10, "b": 20}}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	note := func(verb string) { r.writes = append(r.writes, verb) }
	r.api = builder().WithObjects(append(existing, class("w"), node("n1", "a"), csiNode("n1"), node("n2", "b"), csiNode("n2"))...).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				note("create")
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				note("update")
				return c.Update(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				note("delete")
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
	measures := telemetry.NewMetrics(prometheus.NewRegistry(), func() int { return 0 })
	r.Controller = New(Config{
		Settings: reconcile.Settings{
			Workers: 1, Clock: r.clock, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Decided: measures.Decisions, Events: r,
		},
		Cached: r.api, Objects: &objects{Reader: r.api}, Live: r.api, Writer: r.api, CSI: r.driver, Timeout: time.Second, Poll: time.Minute,
		Rules:  capacity.Rules{Driver: driverName, Namespace: namespace, ManagedBy: names.CapacityManager("")},
		MaxAge: 15 * time.Minute, Locks: &csirpc.VolumeLocks{}, InFlight: measures.InFlight, Random: func() float64 { return r.random },
	})
	r.objects.Fed(&storagev1.CSIStorageCapacity{})
	r.keys = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[capacity.Key]())
	t.Cleanup(r.keys.ShutDown)
	r.queue.Store(&r.keys)
	return r
}

// over has the controller write to another API server.
func (r *rig) over(api client.WithWatch) {
	r.api, r.Live, r.writer = api, api, r.objects.Recording(api)
}

// hide has the cache of the objects show none.
func (r *rig) hide() { r.Objects.(*objects).Reader = builder().Build() }

func class(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driverName, Parameters: map[string]string{
			"tier": "ssd", names.ParameterFSType: "xfs",
		},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func csiNode(name string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, TopologyKeys: []string{"zone"}}},
	}}
}

var (
	inA = capacity.Key{Class: "w", Segment: "zone=a"}
	inB = capacity.Key{Class: "w", Segment: "zone=b"}
)

// replanned computes the plan and returns the keys that this enqueues.
func (r *rig) replanned(t *testing.T) []capacity.Key {
	t.Helper()
	if _, err := r.replan(t.Context(), planKey{}); err != nil {
		t.Fatal(err)
	}
	return r.enqueued()
}

// enqueued takes all keys that are due out of the queue.
func (r *rig) enqueued() (keys []capacity.Key) {
	for r.keys.Len() > 0 {
		key, _ := r.keys.Get()
		r.keys.Done(key)
		keys = append(keys, key)
	}
	return keys
}

// run reconciles keys and returns the requeue delay of a failed one.
func (r *rig) run(t *testing.T, keys ...capacity.Key) (after time.Duration) {
	t.Helper()
	for _, key := range keys {
		result, err := r.Loop().Reconcile(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		after = result.RequeueAfter
	}
	return after
}

// published returns the capacities in the API server by key, -1 for an object without a capacity.
func (r *rig) published(t *testing.T) map[capacity.Key]int64 {
	t.Helper()
	all := map[capacity.Key]int64{}
	for _, object := range r.list(t) {
		key, _ := capacity.KeyOf(&object)
		all[key] = -1
		if v := capacity.ValuesOf(&object); v.HasCapacity {
			all[key] = v.Capacity
		}
	}
	return all
}

func (r *rig) list(t *testing.T) []storagev1.CSIStorageCapacity {
	t.Helper()
	var list storagev1.CSIStorageCapacityList
	if err := r.api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (r *rig) expect(t *testing.T, what string, want map[capacity.Key]int64, writes ...string) {
	t.Helper()
	if got := r.published(t); !maps.Equal(got, want) {
		t.Errorf("%s: published %v, want %v", what, got, want)
	}
	if !slices.Equal(r.writes, writes) {
		t.Errorf("%s: writes %q, want %q", what, r.writes, writes)
	}
	r.writes = nil
}
