package attachdetach

import (
	"context"
	"errors"
	"sync"
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
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // the informer cache
	Live   client.Reader // the API server
	Writer client.Client
	Rules  attachment.Rules
	// AuditEvery is how often VolumeAttachments without a PersistentVolume are looked at, and how
	// long one must be unused.
	AuditEvery time.Duration
	Metrics    prometheus.Registerer // where its metrics are registered; nil for none
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
	attachments *kube.OwnWrites[*storagev1.VolumeAttachment]
	nodes       *kube.OwnWrites[*corev1.Node]
	status      *nodeStatus
	measures    *measures
	teller      *reconcile.Teller      // events about pods
	forced      *prometheus.CounterVec // forced detaches by reason; nil for none

	identity string            // of this process
	deleted  kube.EndedObjects // VolumeAttachments that this process has deleted
	gone     kube.EndedObjects // those whose end the attacher of this process has told

	mu        sync.Mutex
	unwanted  map[Key]map[string]time.Time
	confirmed map[types.UID]bool      // VolumeAttachments that this process has created or confirmed
	orphans   map[types.UID]time.Time // since when the audit has found a VolumeAttachment without a volume
	queue     queue                   // nil before the start
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	c := &Controller{
		Config: cfg, attachments: kube.NewOwnWrites[*storagev1.VolumeAttachment](),
		nodes:    kube.NewOwnWrites[*corev1.Node](),
		identity: string(uuid.NewUUID()),
		unwanted: map[Key]map[string]time.Time{}, confirmed: map[types.UID]bool{},
		orphans: map[types.UID]time.Time{}, teller: reconcile.NewTeller(cfg.Events, cfg.Clock),
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
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
		&storagev1.CSIDriver{}, &storagev1.VolumeAttachment{},
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), kinds...); err != nil {
		return err
	}
	cache := mgr.GetCache()
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = q
	if c.InProcess != nil {
		c.InProcess.SetController(func(va *storagev1.VolumeAttachment, what handoff.AttachmentWrite) {
			c.hear(ctx, va, what)
		})
	}
	return nil
}

// hear takes in what the attacher of this process has written.
func (c *Controller) hear(ctx context.Context, va *storagev1.VolumeAttachment, what handoff.AttachmentWrite) {
	if what == handoff.AttachmentWritten {
		c.attachments.Wrote(va)
	} else {
		c.gone.Add(va.UID, c.Clock.Now())
		c.measures.ended(va.UID, operationDetach, c.Clock.Now())
	}
	if key, ok := c.keyOfAttachment(ctx, va); ok {
		c.enqueue(key)
	}
}

// Decide implements reconcile.Task. It notes since when a node has the volume without need, for the
// timer of a forced detach.
func (c *Controller) Decide(s attachment.Snapshot, now time.Time) verdict.Verdict[attachment.Action] {
	c.mu.Lock()
	s.Unwanted = keepSince(c.unwanted, s.Key, attachment.Unwanted(s), now)
	c.mu.Unlock()
	v, measured := attachment.DecideAndMeasure(s, now)
	c.measures.decided(s, measured, now)
	return v
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
		case <-a.Clock.After(a.AuditEvery):
			a.look(ctx)
		}
	}
}

// look enqueues the VolumeAttachments whose handle is not known, and notes since when.
func (c *Controller) look(ctx context.Context) {
	var list storagev1.VolumeAttachmentList
	if err := c.Cached.List(ctx, &list); err != nil {
		return
	}
	orphans := map[types.UID]time.Time{}
	for i := range list.Items {
		va := &list.Items[i]
		key, ok := c.keyOfAttachment(ctx, va)
		if !ok || key.Attachment == "" {
			continue
		}
		orphans[va.UID] = c.orphanSince(va.UID)
		c.enqueue(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orphans = orphans
}

func (c *Controller) orphanSince(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, ok := c.orphans[uid]; ok {
		return since
	}
	return c.Clock.Now()
}

func (c *Controller) enqueue(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.Add(key)
	}
}
