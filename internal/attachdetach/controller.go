package attachdetach

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached  *kube.Overlay // the informer cache with own writes
	Live    client.Reader // the API server
	Writer  client.Client // whose writes Cached has
	Rules   attachment.Rules
	Metrics prometheus.Registerer // where its metrics are registered; nil for none
	// InProcess connects it with the attachers in this process; nil for none.
	InProcess *handoff.Attachments
}

// Name of the controller and of its work queue.
const Name = "attachdetach"

// DefaultForceAfter is upstream's maximum wait for an unmount on an unhealthy node (4.1).
const DefaultForceAfter = 6 * time.Minute

// DefaultAudit is the period of the audit.
const DefaultAudit = time.Minute

// Key is a volume of a driver.
type Key = attachment.Key

type queue = workqueue.TypedRateLimitingInterface[Key]

// Controller is the task that the reconcile loop runs.
type Controller struct {
	Config
	read     client.Reader // Cached; its objects share memory with the cache
	status   *nodeStatus
	measures *measures
	teller   *reconcile.Teller      // events about pods
	forced   *prometheus.CounterVec // forced detaches by reason; nil for none
	identity string                 // of this process
	memory   Memory
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	c := &Controller{
		Config: cfg, read: kube.WithoutCopies(cfg.Cached), identity: string(uuid.NewUUID()),
		teller: reconcile.NewTeller(cfg.Events, cfg.Clock),
	}
	c.status, c.measures = newNodeStatus(c), newMeasures()
	if c.Metrics != nil {
		c.forced = telemetry.NewCounter(c.Metrics, telemetry.MetricForcedDetaches)
		c.measures.out = telemetry.NewAttaching(c.Metrics, func(emit telemetry.Emit) {
			c.measures.collect(c.Clock.Now(), emit)
		})
	}
	return c
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[Key, attachment.Snapshot, attachment.Action] {
	return reconcile.New(reconcile.Config[Key, attachment.Snapshot, attachment.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[Key](), Bound: reconcile.APITimeout,
		Observe: c.observe,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	cache := mgr.GetCache()
	c.Cached.Index(Indexes()...)
	if err := c.Cached.Watch(ctx, cache, &storagev1.VolumeAttachment{}, &corev1.Node{}); err != nil {
		return err
	}
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
		&storagev1.CSIDriver{}, &storagev1.VolumeAttachment{},
	}
	if err := kube.Prewarm(ctx, cache, kinds...); err != nil {
		return err
	}
	err := reconcile.Register(mgr, reconcile.Registration[Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(), Sources: []source.TypedSource[Key]{
			source.TypedFunc[Key](c.start),
			source.TypedKind(cache, &corev1.Pod{}, c.podEvents()),
			source.TypedKind(cache, &corev1.PersistentVolumeClaim{}, c.claimEvents()),
			source.TypedKind(cache, &corev1.PersistentVolume{}, c.volumeEvents()),
			source.TypedKind(cache, &storagev1.VolumeAttachment{}, c.attachmentEvents()),
			source.TypedKind(cache, &corev1.Node{}, c.nodeEvents()),
			source.TypedKind(cache, &storagev1.CSIDriver{}, c.driverEvents()),
		},
	})
	return errors.Join(err, mgr.Add(audit{c}))
}

func (c *Controller) start(ctx context.Context, q queue) error {
	c.memory.lead(q)
	c.status.lead(ctx)
	if c.InProcess != nil {
		c.InProcess.SetController(func(va *storagev1.VolumeAttachment) { c.hear(ctx, va) })
	}
	return nil
}

// hear takes in what the attacher of this process has written.
func (c *Controller) hear(ctx context.Context, va *storagev1.VolumeAttachment) {
	c.Cached.Wrote(va)
	c.status.changed(va.Spec.NodeName)
	if va.DeletionTimestamp != nil && len(va.Finalizers) == 0 {
		c.measures.ended(va.UID, operationDetach, c.Clock.Now())
	}
	if key, ok := c.keyOfAttachment(ctx, va); ok {
		c.memory.enqueue(key)
	}
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s attachment.Snapshot, now time.Time) next {
	return attachment.Decide(s, now)
}

// observe has the metrics say what a run has decided about.
func (c *Controller) observe(_ Key, s attachment.Snapshot, _ next, took time.Duration) {
	began := c.Clock.Now().Add(-took)
	c.measures.decided(s, attachment.Measure(s, began), began)
}

// mostPods is how many pods of a volume get an event about a long wait: a shared volume can have hundreds.
const mostPods = 5

// About implements reconcile.Task. Events are about pods and are emitted by an action; a long wait is
// said on the pods that do not run yet, and on those whose volume is detached while they run: their
// VolumeAttachment was deleted by hand.
func (c *Controller) About(key Key, s attachment.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{"driver", key.Driver, "handle", key.Handle, "attachment", key.Attachment}}
	going := map[string]bool{} // nodes whose VolumeAttachment is being deleted
	for _, va := range s.Attachments {
		going[va.Spec.NodeName] = va.DeletionTimestamp != nil
	}
	for _, pod := range s.Pods {
		phase := pod.Status.Phase
		isWaiting := phase == corev1.PodPending || phase == corev1.PodRunning && going[pod.Spec.NodeName]
		if pod.Spec.NodeName != "" && isWaiting && len(about.Users) < mostPods {
			about.Users = append(about.Users, pod)
		}
	}
	return about
}

// audit looks at VolumeAttachments whose PersistentVolume is gone.
type audit struct{ *Controller }

// Start implements manager.Runnable.
func (a audit) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(a.Rules.AuditEvery):
			a.look(ctx)
		}
	}
}

// look enqueues the VolumeAttachments whose handle is not known, and notes since when. Only those that do not
// remember their handle can be among them.
func (c *Controller) look(ctx context.Context) {
	var list storagev1.VolumeAttachmentList
	without := client.MatchingFields{IndexAttachmentHandle: noHandle}
	if err := c.read.List(ctx, &list, without); err != nil {
		return
	}
	var orphans []types.UID
	var keys []Key
	for i := range list.Items {
		va := &list.Items[i]
		if key, ok := c.keyOfAttachment(ctx, va); ok && key.Attachment != "" {
			orphans, keys = append(orphans, va.UID), append(keys, key)
		}
	}
	c.memory.audited(orphans, c.Clock.Now())
	for _, key := range keys {
		c.memory.enqueue(key)
	}
}
