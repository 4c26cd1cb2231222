package reclaim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	corereclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

const (
	driverName = "csi.example"
	marker     = "hunter2-the-marker"
)

var now = time.Unix(1000, 0)

// driver remembers what it was asked to delete.
type driver struct {
	csi.ControllerClient
	deleted []*csi.DeleteVolumeRequest
	fail    error
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest, _ ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	d.deleted = append(d.deleted, r)
	return &csi.DeleteVolumeResponse{}, d.fail
}

// rig is a controller with an API server of paper.
type rig struct {
	*Controller
	driver *driver
	api    client.Client
	writes []string
	reads  []string // of the API server, not of the cache
	events []string
}

func (r *rig) Event(_ runtime.Object, kind, reason, message string) {
	r.events = append(r.events, kind+" "+reason+" "+message)
}

func testDriver() corereclaim.Driver {
	return corereclaim.Driver{Name: driverName, Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
	}}
}

// newRig has the given objects. refuse answers the reads of the API server instead of it, when it
// says anything, but those of volumes.
func newRig(refuse error, objects ...client.Object) *rig {
	r := &rig{driver: &driver{}}
	note := func(verb string, o client.Object) {
		r.writes = append(r.writes, fmt.Sprintf("%s %T", verb, o)[:len(verb)]+" "+o.GetName())
	}
	builder := func() *fake.ClientBuilder {
		b := fake.NewClientBuilder().WithScheme(kube.NewScheme())
		for _, index := range Indexes(testDriver()) {
			b = b.WithIndex(index.Kind, index.Field, index.Values)
		}
		return b
	}
	r.api = builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("PATCH", o)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("DELETE", o)
			return c.Delete(ctx, o)
		},
	}).Build()
	live := interceptor.NewClient(r.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			r.reads = append(r.reads, key.String())
			if _, volume := o.(*corev1.PersistentVolume); refuse != nil && !volume {
				return refuse
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			r.reads = append(r.reads, "all")
			return c.List(ctx, list, opts...)
		},
	})
	measures := telemetry.NewMetrics(prometheus.NewRegistry(), func() int { return 0 })
	r.Controller = New(Config{
		Calls:  &csirpc.VolumeLocks{},
		Cached: over(r.api), Live: live, Writer: r.api, CSI: r.driver,
		Driver:  testDriver(),
		Timeout: time.Second, InFlight: measures.InFlight,
		Settings: reconcile.Settings{
			Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Clock: clocktesting.NewFakeClock(now),
			Events: r, Decided: measures.Decisions,
		},
	})
	for _, o := range objects {
		if pv, ok := o.(*corev1.PersistentVolume); ok {
			r.sees(pv)
		}
	}
	return r
}

// over returns a cache over which no own writes are laid.
func over(cached client.Reader) *kube.Overlay {
	o := kube.NewOverlay(cached, clocktesting.NewFakeClock(now))
	o.Index(Indexes(testDriver())...)
	return o
}

// fed returns a cache over which own writes to volumes are laid, until the test says that it saw them.
func fed(cached client.Reader) *kube.Overlay {
	o := over(cached)
	o.Fed(&corev1.PersistentVolume{})
	return o
}

// sees has the watch show what became of a bound volume.
func (r *rig) sees(pv *corev1.PersistentVolume) {
	bound := pv.DeepCopy()
	bound.Status.Phase = corev1.VolumeBound
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	r.changes().Update(context.Background(), event.TypedUpdateEvent[*corev1.PersistentVolume]{ObjectOld: bound, ObjectNew: pv}, q)
}

// showsChange has the watch show the volume as the API server has it.
func (r *rig) showsChange(t *testing.T) {
	t.Helper()
	pv := &corev1.PersistentVolume{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, pv); err != nil {
		t.Fatal(err)
	}
	r.sees(pv)
}

func (r *rig) run(t *testing.T) time.Duration {
	t.Helper()
	result, err := r.Loop().Reconcile(t.Context(), "pv")
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// releasedVolume is a volume of ours whose claim is gone, changed by edits.
func releasedVolume(edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pv", UID: "u", Finalizers: []string{names.FinalizerPVProtection, names.FinalizerVolume},
			Annotations: map[string]string{names.AnnProvisionedBy: driverName, names.AnnDeletionSecretName: "", names.AnnDeletionSecretNamespace: ""},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "fast",
			ClaimRef:               &corev1.ObjectReference{Namespace: "crew", Name: "logbook", UID: "c"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased, LastPhaseTransitionTime: &metav1.Time{Time: now}},
	}
	for _, edit := range edits {
		edit(pv)
	}
	return pv
}

func phase(p corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Status.Phase = p }
}

func annotate(name, namespace string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Annotations[names.AnnDeletionSecretName], pv.Annotations[names.AnnDeletionSecretNamespace] = name, namespace
	}
}

func noAnnotations(pv *corev1.PersistentVolume) {
	pv.Annotations = map[string]string{names.AnnProvisionedBy: driverName}
}

func claim(uid string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "logbook"}}
	c.SetUID("c")
	if uid != "c" {
		c.SetUID("other")
	}
	c.Spec.VolumeName = "pv"
	return c
}

func vault() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "s"}, Data: map[string][]byte{"password": []byte(marker)}}
}
