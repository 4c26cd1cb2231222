package attacher

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

const driver = "d.example.com"

// disks is a CSI driver in memory that records its calls.
type disks struct {
	csi.ControllerClient

	mu    sync.Mutex
	calls []string
	at    map[string]string // handle: node
	err   error             // of the next calls
	// listed is called between the list and its answer; nil for nothing.
	listed func()
}

func (d *disks) call(text string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, text)
	return d.err
}

func (d *disks) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.calls...)
}

func (d *disks) ControllerPublishVolume(
	_ context.Context, r *csi.ControllerPublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerPublishVolumeResponse, error) {
	if err := d.call(fmt.Sprintf("publish %s to %s", r.GetVolumeId(), r.GetNodeId())); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at[r.GetVolumeId()] = r.GetNodeId()
	return &csi.ControllerPublishVolumeResponse{}, nil
}

func (d *disks) ControllerUnpublishVolume(
	_ context.Context, r *csi.ControllerUnpublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, d.call(fmt.Sprintf("unpublish %s from %s", r.GetVolumeId(), r.GetNodeId()))
}

func (d *disks) ListVolumes(context.Context, *csi.ListVolumesRequest, ...grpc.CallOption) (*csi.ListVolumesResponse, error) {
	if d.listed != nil {
		defer d.listed()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := &csi.ListVolumesResponse{}
	for handle, node := range d.at {
		answer.Entries = append(answer.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: handle}, Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{node}},
		})
	}
	return answer, nil
}

// rig is an attacher on an API server in memory.
type rig struct {
	*testing.T
	*Controller
	api   client.WithWatch
	clock *testingclock.FakeClock
	disks *disks
	loop  crreconcile.TypedReconciler[string]
	queue queue
}

func newRig(t *testing.T, through interceptor.Funcs, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{T: t, clock: testingclock.NewFakeClock(time.Unix(1e9, 0)), disks: &disks{at: map[string]string{}}}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).WithInterceptorFuncs(through).
		WithStatusSubresource(&storagev1.VolumeAttachment{})
	for _, i := range Indexes() {
		builder = builder.WithIndex(i.Kind, i.Field, i.Values)
	}
	r.api = builder.Build()
	unregistered := prometheus.NewRegistry()
	overlay := kube.NewOverlay(r.api, r.clock)
	overlay.Fed(&storagev1.VolumeAttachment{}, &corev1.PersistentVolume{})
	overlay.Index(Indexes()...)
	r.Controller = New(Config{
		Cached: overlay, Live: r.api, Writer: overlay.Recording(r.api), CSI: r.disks, Calls: &csirpc.VolumeLocks{}, Timeout: time.Second,
		Driver: publishing.Driver{Name: driver, Publishes: true}, InFlight: telemetry.NewGauge(unregistered, telemetry.MetricInFlight),
		Settings: reconcile.Settings{
			Workers: 1, Clock: r.clock, Backoff: reconcile.Backoff{First: time.Minute, Most: time.Hour},
			Decided: telemetry.NewCounter(unregistered, telemetry.MetricDecisions),
		},
	})
	r.loop = r.inTurn(r.Loop())
	r.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(r.queue.ShutDown)
	r.must(r.start(t.Context(), r.queue))
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// run works on an attachment once, with the cache up to date.
func (r *rig) run(name string) {
	r.Helper()
	if _, err := r.loop.Reconcile(r.Context(), name); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) attachment(name string) *storagev1.VolumeAttachment {
	r.Helper()
	va := &storagev1.VolumeAttachment{}
	r.must(r.api.Get(r.Context(), client.ObjectKey{Name: name}, va))
	return va
}

func (r *rig) volume() *corev1.PersistentVolume {
	r.Helper()
	pv := &corev1.PersistentVolume{}
	r.must(r.api.Get(r.Context(), client.ObjectKey{Name: "pv"}, pv))
	return pv
}

// clusterWith is an exclusive volume, and a node a on which the driver is registered, and a second one.
func clusterWith(more ...client.Object) []client.Object {
	all := []client.Object{&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"},
		},
	}}}
	for _, name := range []string{"a", "b"} {
		all = append(all, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: "id-" + name}},
		}})
	}
	return append(all, more...)
}

// va is an attachment of the volume to a node, with the node's name.
func va(node string, edits ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	one := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		},
	}
	for _, edit := range edits {
		edit(one)
	}
	return one
}

func attached(v *storagev1.VolumeAttachment) {
	v.Status.Attached, v.Finalizers = true, []string{names.AttacherFinalizer(driver)}
	v.Annotations = map[string]string{names.AnnAttachedNodeID: "id-" + v.Spec.NodeName, names.AnnVolumeHandle: "h"}
}
