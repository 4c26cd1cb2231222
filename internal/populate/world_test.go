package populate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	populate "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// world is an API server in memory with models of the binder, a provisioner, a kubelet and the protection of
// claims around the real controller.
type world struct {
	*testing.T

	api   apiserver.Client
	clock *clocktesting.FakeClock
	claim *corev1.PersistentVolumeClaim

	progress  func(ctx context.Context, address string) (populate.Progress, bool)
	metrics   *prometheus.Registry
	nodes     []string // that the scheduler selects, one after the other; none for a class that does not wait
	full      string   // node for which no volume can be made
	failures  int      // pods that fail before one succeeds
	reclaimed int      // volumes that were deleted
	writer    *killed
	events    []string
}

var kindOfTest = schema.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: "Source"}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, api: apiserver.New().Client(), clock: clocktesting.NewFakeClock(time.Now())}
	w.claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	w.claim.Spec.StorageClassName = new("fast")
	w.claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	w.claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.claim.Spec.DataSourceRef = &corev1.TypedObjectReference{
		APIGroup: &kindOfTest.Group, Kind: kindOfTest.Kind, Name: "s",
	}
	w.must(w.api.Create(
		t.Context(),
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "csi.example.com"},
	))
	w.must(w.api.Create(t.Context(), w.claim))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Event implements reconcile.Recorder.
func (w *world) Event(_ runtime.Object, _, reason, _ string) { w.events = append(w.events, reason) }

// start returns the loop of a new process whose writes go through the writer.
func (w *world) start() *reconcile.Loop[Key, populate.Snapshot, populate.Action] {
	cfg := Config{
		Settings: reconcile.Settings{
			Workers: 1, Backoff: reconcile.Backoff{First: time.Second, Most: time.Second}, Clock: w.clock, Events: w,
			SayAfter: time.Hour * 24,
			Decided:  telemetry.NewCounter(prometheus.NewRegistry(), telemetry.MetricDecisions),
		},
		Rules: populate.Settings{
			Namespace: "work", Prefix: "p.example.com", Kind: kindOfTest.GroupKind(), RetryFirst: time.Second,
			RetryMost: time.Minute,
		},
		Populator: Populator{
			Source: kindOfTest,
			Pod: func(*unstructured.Unstructured, Target) (Request, error) {
				return Request{Args: []string{"fill"}, Port: 7}, nil
			},
		},
		Image: "i", Live: w.api, Writer: w.writer, Sources: oneSource{},
		Progress: w.progress,
	}
	w.metrics = prometheus.NewRegistry()
	cfg.Metrics = telemetry.NewPopulating(w.metrics)
	c := &Controller{cfg}
	c.Cached = kube.NewOverlay(indexed{w.api, c.Indexes()}, w.clock)
	return c.Loop()
}

// oneSource has the source s.
type oneSource struct{ client.Reader }

func (oneSource) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetNamespace(key.Namespace)
	o.SetName(key.Name)
	return nil
}

// indexed filters lists by the indexes of the controller.
type indexed struct {
	apiserver.Client
	indexes []kube.Index
}

func (r indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	volumes, is := list.(*corev1.PersistentVolumeList)
	by := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector
	if !is || by == nil {
		return r.Client.List(ctx, list, opts...)
	}
	if err := r.Client.List(ctx, list); err != nil {
		return err
	}
	for _, want := range by.Requirements() {
		at := slices.IndexFunc(r.indexes, func(i kube.Index) bool { return i.Field == want.Field })
		volumes.Items = slices.DeleteFunc(volumes.Items, func(pv corev1.PersistentVolume) bool {
			return !slices.Contains(r.indexes[at].Values(&pv), want.Value)
		})
	}
	return nil
}

// killed is the client of a process that is killed at one of its writes.
type killed struct {
	client.Client
	at     int  // the number of that write; 0 for none
	before bool // the write is not sent
	writes int
	dead   bool
	each   func(write int) // is called after each write, also one that is not sent; nil for nothing
}

var errKilled = errors.New("the process is killed")

func (k *killed) write(do func() error) error {
	if k.dead {
		return errKilled
	}
	k.writes++
	k.dead = k.writes == k.at
	err := errKilled
	if !k.dead || !k.before {
		err = do()
	}
	if k.each != nil {
		k.each(k.writes)
	}
	if k.dead {
		return errKilled
	}
	return err
}

func (k *killed) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return k.write(func() error { return k.Client.Create(ctx, o, opts...) })
}

func (k *killed) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return k.write(func() error { return k.Client.Patch(ctx, o, p, opts...) })
}

func (k *killed) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return k.write(func() error { return k.Client.Delete(ctx, o, opts...) })
}

// run lets all work until nothing can change any more. A killed process is followed by another.
func (w *world) run() {
	w.Helper()
	loop := w.start()
	for range 60 {
		if _, err := loop.Reconcile(w.Context(), kube.KeyOf(w.claim)); err != nil {
			w.Fatal(err)
		}
		if w.writer.dead {
			w.writer.dead, w.writer.at = false, 0
			loop = w.start()
		}
		w.others()
		w.clock.Step(time.Minute)
	}
}

// others does what the other components do.
func (w *world) others() {
	w.Helper()
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	var pods corev1.PodList
	w.must(errors.Join(
		w.api.List(w.Context(), &claims), w.api.List(w.Context(), &volumes), w.api.List(w.Context(), &pods),
	))
	for i := range pods.Items {
		w.kubelet(&pods.Items[i])
	}
	for i := range claims.Items {
		if w.scheduler(&claims.Items[i]) {
			continue
		}
		w.binder(&claims.Items[i], volumes.Items, pods.Items)
	}
	for i := range volumes.Items {
		w.reclaim(&volumes.Items[i], claims.Items)
	}
}

func (w *world) kubelet(pod *corev1.Pod) {
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		return
	case corev1.PodRunning:
		pod.Status.Phase = corev1.PodSucceeded
		if w.failures > 0 {
			w.failures--
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				FinishedAt: metav1.NewTime(w.clock.Now()), Message: `{"written":7}`,
			},
		}}}
	default:
		pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "192.0.2.1"
	}
	w.must(w.api.Status().Update(w.Context(), pod))
}

// binder binds, provisions for prime claims, marks claims as Lost and removes the protection of claims.
func (w *world) binder(claim *corev1.PersistentVolumeClaim, volumes []corev1.PersistentVolume, pods []corev1.Pod) {
	mine := slices.IndexFunc(
		volumes, func(pv corev1.PersistentVolume) bool { return pv.Spec.ClaimRef.UID == claim.UID },
	)
	switch used := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return claim.Namespace == pod.Namespace }); {
	case claim.DeletionTimestamp != nil:
		if !used && slices.Contains(claim.Finalizers, names.FinalizerPVCProtection) {
			w.must(w.api.Patch(w.Context(), claim, kube.DropFinalizer(claim, names.FinalizerPVCProtection)))
		}
	case claim.Spec.VolumeName != "" && mine < 0 && claim.Status.Phase != corev1.ClaimLost:
		claim.Status.Phase = corev1.ClaimLost
		w.must(w.api.Status().Update(w.Context(), claim))
	case claim.Spec.VolumeName == "" && mine >= 0:
		claim.Spec.VolumeName = volumes[mine].Name
		w.must(w.api.Update(w.Context(), claim))
		claim.Status.Phase = corev1.ClaimBound
		w.must(w.api.Status().Update(w.Context(), claim))
	case claim.Spec.VolumeName == "" && claim.Spec.DataSourceRef == nil:
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "h"}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		w.must(w.api.Create(w.Context(), pv))
	}
}

// scheduler selects a node for a claim that has none, and is the provisioner that gives a node back for which
// it can make no volume. It reports whether it has changed the claim.
func (w *world) scheduler(claim *corev1.PersistentVolumeClaim) bool {
	switch node := claim.Annotations[names.AnnSelectedNode]; {
	case len(w.nodes) > 0 && node == "" && claim.Spec.DataSourceRef != nil && claim.Spec.VolumeName == "":
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnSelectedNode, w.nodes[0])
		w.nodes = w.nodes[1:]
	case node != "" && node == w.full && claim.Spec.DataSourceRef == nil:
		delete(claim.Annotations, names.AnnSelectedNode)
	default:
		return w.full != "" && node == "" && claim.Spec.VolumeName == ""
	}
	w.must(w.api.Update(w.Context(), claim))
	return true
}

// reclaim deletes a volume whose claim is gone.
func (w *world) reclaim(pv *corev1.PersistentVolume, claims []corev1.PersistentVolumeClaim) {
	if slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.UID == pv.Spec.ClaimRef.UID }) {
		return
	}
	if pv.DeletionTimestamp == nil {
		w.reclaimed++
		w.must(w.api.Delete(w.Context(), pv))
		w.must(client.IgnoreNotFound(w.api.Get(w.Context(), client.ObjectKeyFromObject(pv), pv)))
	}
	for _, finalizer := range slices.Clone(pv.Finalizers) {
		w.must(client.IgnoreNotFound(w.api.Patch(w.Context(), pv, kube.DropFinalizer(pv, finalizer))))
	}
}
