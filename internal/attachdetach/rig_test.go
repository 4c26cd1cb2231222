package attachdetach

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

const driver = "d.example.com"

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	volume = Key{Driver: driver, Handle: "h"}
)

// rig is a controller on an API server in memory.
type rig struct {
	*testing.T
	*Controller
	api      client.WithWatch
	clock    *testingclock.FakeClock
	registry *prometheus.Registry
	loop     crreconcile.TypedReconciler[Key]
	events   []string
}

// newRig returns a rig with the objects, whose requests go through the functions.
func newRig(t *testing.T, through interceptor.Funcs, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{T: t, clock: testingclock.NewFakeClock(start), registry: prometheus.NewRegistry()}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).
		WithStatusSubresource(&corev1.Node{}, &storagev1.VolumeAttachment{}).WithInterceptorFuncs(through)
	for _, i := range Indexes() {
		builder = builder.WithIndex(i.Kind, i.Field, i.Values)
	}
	r.api = builder.Build()
	overlay := kube.NewOverlay(r.api, r.clock)
	overlay.Fed(&storagev1.VolumeAttachment{}, &corev1.Node{})
	overlay.Index(Indexes()...)
	r.Controller = New(Config{
		Cached: overlay, Live: r.api, Writer: overlay.Recording(r.api), Metrics: r.registry,
		Rules: attachment.Rules{ForceAfter: DefaultForceAfter, AuditEvery: time.Minute},
		Settings: reconcile.Settings{
			Workers: 1, Clock: r.clock, Events: r, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute},
			Decided: telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
		},
	})
	r.loop = r.Loop()
	return r
}

// Event implements reconcile.Recorder.
func (r *rig) Event(object runtime.Object, _, reason, _ string) {
	r.events = append(r.events, object.(client.Object).GetName()+" "+reason)
}

// run works on the volume once and returns the delay of its requeue.
func (r *rig) run() time.Duration {
	r.Helper()
	result, err := r.loop.Reconcile(r.Context(), volume)
	if err != nil {
		r.Fatal(err)
	}
	return result.RequeueAfter
}

func (r *rig) attachments() (all []storagev1.VolumeAttachment) {
	r.Helper()
	var list storagev1.VolumeAttachmentList
	if err := r.api.List(r.Context(), &list); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// lists returns what a node's status lists.
func (r *rig) lists(name string) (all []string) {
	r.Helper()
	node := &corev1.Node{}
	if err := r.api.Get(r.Context(), client.ObjectKey{Name: name}, node); err != nil {
		r.Fatal(err)
	}
	for _, v := range node.Status.VolumesAttached {
		all = append(all, string(v.Name))
	}
	return all
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// metric returns the value of a gauge or counter, or the number of observations of a histogram.
func (r *rig) metric(m telemetry.Metric, labels ...string) float64 {
	r.Helper()
	families, err := r.registry.Gather()
	r.must(err)
	for _, family := range families {
		if family.GetName() != m.Name {
			continue
		}
		for _, one := range family.GetMetric() {
			var have []string
			for _, l := range one.GetLabel() {
				have = append(have, l.GetValue())
			}
			if slices.Equal(have, labels) {
				return one.GetGauge().GetValue() + one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func node(name string, edits ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{names.AnnManagedAttach: "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func hasListed(n *corev1.Node) {
	n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: volume.UniqueName()})
}

func inUse(n *corev1.Node) { n.Status.VolumesInUse = []corev1.UniqueVolumeName{volume.UniqueName()} }

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

// pair is a claim that is bound to an exclusive volume.
func pair() []client.Object {
	return []client.Object{
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "c"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"},
			},
		}},
	}
}

func pod(name, on string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
		NodeName: on, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
		}}},
	}}
}

func va(on string, attached bool) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: names.AttachmentName("h", driver, on), UID: types.UID("va-" + on), Finalizers: []string{names.AttacherFinalizer(driver)},
		},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: on, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: attached},
	}
}
