package capacity

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config has the dependencies and settings of the controller.
type Config struct {
	reconcile.Settings
	Cached  client.Reader // the informer cache of classes, nodes and volumes
	Objects cache.Cache   // of the driver's CSIStorageCapacity objects in the namespace; see [NewCache]
	Live    client.Reader
	Writer  client.Client
	Rules   capacity.Rules
	// Segments is set for a driver without topology and for a provisioner of one node; nil takes
	// the segments of all nodes (S-2, S-5).
	Segments []capacity.Segment
	CSI      csi.ControllerClient
	Timeout  time.Duration // of GetCapacity (F-10)
	Poll     time.Duration // between two GetCapacity calls for one key (F-20)
	MaxAge   time.Duration // at which a published capacity is withdrawn; 0 for never
	Locks    csirpc.Locks
	InFlight *prometheus.GaugeVec
	Random   func() float64 // from 0 to below 1; spreads the polls
}

// Names of the two controllers and their work queues, the same as in upstream's metrics (ME-6).
const (
	Name     = "csistoragecapacity"
	PlanName = "csitopology"
)

// Priorities in the queue.
const (
	priorityPoll    = -10
	priorityNew     = 0
	priorityTouched = 10 // a volume was created or deleted in the segment
)

// Controller publishes capacities. It implements reconcile.Task.
type Controller struct {
	Config

	calls   *csirpc.Caller
	plan    atomic.Pointer[capacity.Plan] // nil before the first run of [PlanName]
	missing capacity.Missing              // used by the worker of [PlanName] alone
	queue   atomic.Pointer[queue]         // nil before the process leads
	answers *answers
	objects *kube.Overlay // Config.Objects with the writes of writer laid over them
	writer  client.Client
}

type queue = reconcile.Queue[capacity.Key]

// New returns the controller. It starts nothing.
func New(cfg Config) *Controller {
	objects := kube.NewOverlay(cfg.Objects, cfg.Clock)
	objects.Index(Indexes()...)
	return &Controller{
		Config: cfg, answers: newAnswers(cfg.Clock), objects: objects, writer: objects.Recording(cfg.Writer),
		calls: csirpc.NewCaller(csirpc.CallerConfig{Locks: cfg.Locks, InFlight: cfg.InFlight}),
	}
}

// NewCache returns a cache of the CSIStorageCapacity objects that any provisioner of the driver
// published in the namespace (W-8). Its watch counts against the client-side rate limit of api.
func NewCache(api *rest.Config, namespace, driver string) (cache.Cache, error) {
	watches, err := kube.WatchClient(api)
	if err != nil {
		return nil, err
	}
	return cache.New(api, cache.Options{
		HTTPClient: watches, Scheme: kube.Scheme(),
		DefaultNamespaces:    map[string]cache.Config{namespace: {}},
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{names.LabelCapacityDriver: driver}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
}

// AddTo registers both controllers and their event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	objects := &storagev1.CSIStorageCapacity{}
	if err := kube.AddIndexes(ctx, c.Objects, Indexes()...); err != nil {
		return err
	}
	if err := c.objects.Watch(ctx, c.Objects, objects); err != nil {
		return err
	}
	watched := []client.Object{&storagev1.StorageClass{}, &corev1.PersistentVolume{}}
	if c.Segments == nil {
		watched = append(watched, &corev1.Node{}, &storagev1.CSINode{})
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), watched...); err != nil {
		return err
	}
	return errors.Join(mgr.Add(c.Objects), c.addPlan(mgr), reconcile.Register(mgr, reconcile.Registration[capacity.Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(), NewQueue: reconcile.NewPriorityQueue[capacity.Key],
		Sources: []source.TypedSource[capacity.Key]{
			source.TypedFunc[capacity.Key](func(_ context.Context, q queue) error {
				c.queue.Store(&q)
				c.enqueue(priorityNew, capacity.Changes(nil, c.plan.Load())...)
				return nil
			}),
			source.TypedKind(c.Objects, objects, c.objectChanges()),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.volumeDeletions()),
		},
	}))
}

// Loop returns the reconcile loop that runs the controller.
func (c *Controller) Loop() *reconcile.Loop[capacity.Key, capacity.Snapshot, capacity.Action] {
	settings := c.Settings
	settings.Backoff = c.backoff()
	return reconcile.New(reconcile.Config[capacity.Key, capacity.Snapshot, capacity.Action]{
		Settings: settings, Name: Name, Task: c, Retries: reconcile.NewRetries[capacity.Key](),
		Bound: reconcile.APITimeout + c.Timeout, Observe: c.observe, Polls: true,
	})
}

// backoff is that of the settings, with delays no longer than a poll.
func (c *Controller) backoff() reconcile.Backoff {
	first := c.Backoff.First
	return reconcile.Backoff{First: first, Most: max(min(c.Backoff.Most, c.Poll), first)}
}

// observe enqueues a published key for its next poll. The loop itself requeues a failed key, with
// backoff.
func (c *Controller) observe(key capacity.Key, s capacity.Snapshot, end next, _ time.Duration) {
	if end.Because().Reason == verdict.CapacityPublished {
		c.enqueueAfter(priorityPoll, c.pause(s), key)
	}
}

// pause returns the time to the next poll of a key. The first poll comes at a random time within
// the interval, so that keys published in one burst are not polled in one burst (S-14). Later polls
// keep this spread.
func (c *Controller) pause(s capacity.Snapshot) time.Duration {
	share := 0.95 + 0.1*c.Random()
	if len(s.Objects) == 0 || c.answers.isFirst(s.Key) {
		share = 0.05 + 0.95*c.Random()
	}
	return time.Duration(share * float64(c.Poll))
}

func (c *Controller) enqueue(priority int, keys ...capacity.Key) {
	c.enqueueAfter(priority, 0, keys...)
}

// enqueueAfter adds keys to the queue. Before this process is the leader there is no queue; it
// enqueues all keys when it becomes the leader.
func (c *Controller) enqueueAfter(priority int, after time.Duration, keys ...capacity.Key) {
	if q := c.queue.Load(); q != nil && len(keys) > 0 {
		reconcile.AddWithPriority(*q, priority, after, keys...)
	}
}
