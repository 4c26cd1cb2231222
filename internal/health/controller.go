package health

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"
	health "github.com/purser-csi/purser/internal/health/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Name of the controller and of its work queue, as upstream's metrics have it (HM-17).
const Name = "csi-monitor-pv-queue"

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Cached *kube.Overlay
	Writer client.Client // whose writes Cached has

	CSI      csi.ControllerClient
	Driver   string
	Timeout  time.Duration // of one page, and of one call about a volume (HM-40)
	InFlight *prometheus.GaugeVec
	Measures *telemetry.VolumeHealth

	Lists      bool          // the driver lists the volumes with problems
	ListEvery  time.Duration // from the end of one list to the next
	CheckEvery time.Duration // how often a volume is checked if the driver does not list; see [health.Period]
}

// Controller is the task that package reconcile runs. Its keys are the names of PersistentVolumes.
type Controller struct {
	Config
	memory *Memory
	caller *csirpc.Caller
	teller *reconcile.Teller
}

type queue = reconcile.Queue[string]

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	cfg.Workers = min(cfg.Workers, health.CallsPerSecond)
	return &Controller{
		Config: cfg, memory: newMemory(), teller: reconcile.NewTeller(cfg.Events, cfg.Clock),
		caller: csirpc.NewCaller(csirpc.CallerConfig{Slots: cfg.Workers, InFlight: cfg.InFlight}),
	}
}

// AddTo registers the controller and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := c.Cached.Watch(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	c.Measures.Collect(c.state)
	if c.Lists {
		if err := mgr.Add(lister{c}); err != nil {
			return err
		}
	}
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[string]{
			source.TypedFunc[string](c.start),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.volumeChanges()),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, claimChanges()),
		},
	})
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[string, health.Snapshot, health.Action] {
	return reconcile.New(reconcile.Config[string, health.Snapshot, health.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[string](),
		Bound: c.Timeout + reconcile.APITimeout, Observe: c.observe, Polls: true,
	})
}

// start keeps the queue. The leader calls it.
func (c *Controller) start(ctx context.Context, q queue) error {
	c.memory.lead(q)
	context.AfterFunc(ctx, func() { c.memory.lead(nil) })
	return nil
}

// volumeChanges tracks the bound volumes of the driver, and enqueues a volume whose claim or phase changed.
func (c *Controller) volumeChanges() handler.TypedEventHandler[*corev1.PersistentVolume, string] {
	return reconcile.OnChange(func(_ context.Context, change reconcile.Change[*corev1.PersistentVolume], q queue) {
		if !change.IsCreated() && (change.IsDeleted() || change.Old.UID != change.New.UID) {
			c.memory.forget(change.Old.UID)
		}
		pv := change.New
		if change.IsDeleted() || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != c.Driver {
			return
		}
		if pv.Status.Phase != corev1.VolumeBound || pv.DeletionTimestamp != nil {
			c.memory.forget(pv.UID)
			return
		}
		if c.memory.track(pv, c.Clock.Now()) {
			q.Add(pv.Name)
		}
	})
}

// claimChanges enqueues the volume of a claim whose stored health is not what it was: another writer
// changed it, or the claim is new to this process.
func claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, string] {
	return reconcile.OnChange(func(
		_ context.Context, change reconcile.Change[*corev1.PersistentVolumeClaim], q queue,
	) {
		if change.IsDeleted() || change.New.Spec.VolumeName == "" {
			return
		}
		if change.IsCreated() || change.Old.Spec.VolumeName != change.New.Spec.VolumeName ||
			!equality.Semantic.DeepEqual(change.Old.Status.HealthStatus, change.New.Status.HealthStatus) {
			q.Add(change.New.Spec.VolumeName)
		}
	})
}
