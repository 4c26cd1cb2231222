package sources

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // the informer cache
	Live   client.Reader // the API server
	Writer client.Writer
	// Snapshots is [Reader.Snapshots].
	Snapshots client.Reader
	Driver    string
	// Asks reports whether a claim asks for a volume of the driver.
	Asks func(*corev1.PersistentVolumeClaim) bool
	// Requests returns all requests with a source whose outcome is not known, once the journal may be
	// read.
	Requests func(context.Context) ([]source.Request, error)
	// Flushed returns when the next leader would find no request that is not among Requests.
	Flushed func(context.Context) error
	// Elsewhere is Requests of the instances on other nodes, from live reads; nil for no such
	// instances.
	Elsewhere func(context.Context) ([]source.Request, error)
	// Sweep is how often VolumeSnapshots are listed for finalizers that another process left; 0 for
	// once, at the start.
	Sweep time.Duration
	// Together is what a snapshot-controller in this process, under the same lease, knows of snapshots; nil
	// for none. It needs no finalizer on a VolumeSnapshot, since it reads the calls of this controller.
	Together *handoff.Snapshots
}

// Name of the controller and of its work queue.
const Name = "sources"

type queue = reconcile.Queue[source.Ref]

// Controller is the task that the reconcile loop runs.
type Controller struct {
	Config
	register
	retries *reconcile.Retries[source.Ref]
	local   local
}

// New returns the controller without starting anything.
func New(cfg Config) *Controller {
	return &Controller{
		Config: cfg, retries: reconcile.NewRetries[source.Ref](),
		register: register{sources: map[source.Ref]*held{}, calls: map[types.UID]source.Ref{}},
	}
}

// Loop returns the controller with the loop around it.
func (c *Controller) Loop() *reconcile.Loop[source.Ref, source.Held, source.Action] {
	return reconcile.New(reconcile.Config[source.Ref, source.Held, source.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: reconcile.APITimeout,
		Observe: c.observe,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[source.Ref]{
		Name: Name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []ctrlsource.TypedSource[source.Ref]{
			ctrlsource.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, reconcile.OnChange(c.fromClaim)),
			ctrlsource.TypedFunc[source.Ref](c.fromRegister),
			ctrlsource.TypedFunc[source.Ref](c.fromSweep),
		},
	})
}

// fromClaim enqueues a claim that has the finalizer, and the source of one that waits for it no
// longer: it is bound or gone.
func (c *Controller) fromClaim(_ context.Context, change reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
	claim := change.Object()
	self := source.Ref{Kind: source.KindClaim, NamespacedName: client.ObjectKeyFromObject(claim)}
	if source.IsProtected(claim, self) && !change.IsDeleted() {
		c.know(self)
		q.Add(self)
	}
	if change.IsCreated() || !source.Waits(change.Old) {
		return
	}
	if ref := source.Of(change.Old); (change.IsDeleted() || !source.Waits(claim)) && c.isKnown(ref) {
		q.Add(ref)
	}
}

func (c *Controller) fromRegister(_ context.Context, q queue) error {
	c.local.lead(c.Clock.Now())
	c.listen(func(ref source.Ref) { q.Add(ref) })
	return nil
}
