package binder

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Live   client.Reader // answers from the API server; asked only where a cache could be wrong about data
	Writer client.Client

	HandOver HandOver           // nil when no provisioner is in this process
	Measures *telemetry.Binding // nil for none
	// Pods returns the pods that refer to the claim and have not ended, for the condition Unused that
	// a claim gets when it is bound. Nil if the controller that keeps this condition
	// (internal/protection/rules) is in another process.
	Pods func(claim *corev1.PersistentVolumeClaim) ([]string, error)
	// AuditEvery is the time in which every pair is looked at once, whether or not anything has
	// changed.
	AuditEvery time.Duration
}

// HandOver is a provisioner in the same process.
type HandOver interface {
	// Takes reports whether it works for this driver, at this moment. When that changes, call
	// [Controller.Recheck].
	Takes(driver string) bool
	// Give hands the claim to the provisioner, which creates one volume for it however often Give is
	// called. It must not change the claim.
	Give(claim *corev1.PersistentVolumeClaim)
}

// Name of the controller and of its work queue.
const Name = "binder"

const (
	// DefaultWorkers is how many pairs are worked on at a time.
	DefaultWorkers = 64
	// DefaultAudit is for Config.AuditEvery.
	DefaultAudit = 10 * time.Minute
)

// Controller is the task that package reconcile runs.
type Controller struct {
	Config
	objectStore *objectStore
	retries     *reconcile.Retries[binding.Key]
	workQueue   *workQueue
	synced      chan queue // the work queue, when all is known
	teller      *reconcile.Teller
	measures    *measures
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	if cfg.Workers == 0 {
		cfg.Workers = DefaultWorkers
	}
	if cfg.AuditEvery == 0 {
		cfg.AuditEvery = DefaultAudit
	}
	return &Controller{
		Config: cfg, objectStore: newObjectStore(), retries: reconcile.NewRetries[binding.Key](),
		workQueue: &workQueue{},
		synced:    make(chan queue, 1),
		teller:    reconcile.NewTeller(cfg.Events, cfg.Clock), measures: newMeasures(cfg.Measures, cfg.Clock),
	}
}

// Loop is the controller with the loop around it. The binder's events are about two objects, a claim
// and a volume, and go through a [reconcile.Teller].
func (c *Controller) Loop() *reconcile.Loop[binding.Key, *run, binding.Action] {
	return reconcile.New(reconcile.Config[binding.Key, *run, binding.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: reconcile.APITimeout,
		Finally: func(key binding.Key) { c.enqueue(c.objectStore.endRun(key.Claim)) },
		Rests:   func(key binding.Key) { c.enqueue(c.objectStore.rest(key.Claim)) },
		Observe: c.observe,
	})
}

// AddTo registers the controller, its watches and its audit with a manager.
func (c *Controller) AddTo(_ context.Context, mgr manager.Manager) error {
	err := reconcile.Register(mgr, reconcile.Registration[binding.Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(), Warmup: new(true),
		Sources: []source.TypedSource[binding.Key]{&watches{binder: c, cache: mgr.GetCache()}},
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(c.lead)); err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	return nil
}

// lead enqueues every claim and volume that needs an action once the caches have synced and this
// process holds the lease, and again at each audit. Before that the queue stays empty: a pair of
// which only one half is cached looks as if it needed an action, and a process that waits for its
// lease takes no key from the queue.
func (c *Controller) lead(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case q := <-c.synced:
		c.workQueue.set(q) // from here on the event handlers enqueue
	}
	c.enqueue(c.restless(c.objectStore.keys()))
	return c.audit(ctx)
}

// Recheck enqueues the claims that wait for a volume of the driver: its provisioner in this process
// has begun or ceased to work.
func (c *Controller) Recheck(driver string) { c.enqueue(c.objectStore.ofDriver(driver)) }

// enqueue adds the keys to the work queue once this process is the leader.
func (c *Controller) enqueue(keys []binding.Key) {
	if q := c.workQueue.get(); q != nil {
		for _, key := range keys {
			q.Add(key)
		}
	}
}

// workQueue refers to the work queue; it is empty until this process is the leader.
type workQueue struct {
	mu    sync.RWMutex
	queue queue
}

func (w *workQueue) set(q queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = q
}

func (w *workQueue) get() queue {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.queue
}
