package datasource

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	datasource "github.com/purser-csi/purser/internal/datasource/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Name of the controller and of its work queue, as upstream's metrics have it (DV-3).
const Name = "pvc"

// Config has the dependencies of the controller.
type Config struct {
	reconcile.Settings
	Cached client.Reader
	// Operations counts the checks by their result (DV-6); nil for none.
	Operations *prometheus.CounterVec
}

// Controller is the task that package reconcile runs. Its keys are claims.
type Controller struct{ Config }

// Key is a claim.
type Key = types.NamespacedName

type queue = reconcile.Queue[Key]

// New returns the controller without starting anything.
func New(cfg Config) *Controller { return &Controller{cfg} }

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), Indexes()...); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[Key]{
		Name: Name, Workers: c.Workers, Reconciler: c.loop(),
		Sources: []source.TypedSource[Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, claimChanges()),
			source.TypedKind(mgr.GetCache(), &kube.VolumePopulator{}, c.populatorChanges()),
		},
	})
}

func (c *Controller) loop() *reconcile.Loop[Key, datasource.Snapshot, datasource.Action] {
	return reconcile.New(reconcile.Config[Key, datasource.Snapshot, datasource.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: reconcile.NewRetries[Key](), Bound: reconcile.APITimeout,
		Observe: func(_ Key, s datasource.Snapshot, _ verdict.Verdict[datasource.Action], _ time.Duration) {
			if c.Operations != nil {
				c.Operations.WithLabelValues(datasource.Result(s)).Inc()
			}
		},
	})
}

// indexSourceKind finds the claims without a volume by the kind of their source.
const indexSourceKind = "sourceKind"

// Indexes are the indexes of the controller.
func Indexes() []kube.Index {
	return []kube.Index{kube.IndexBy(indexSourceKind, func(claim *corev1.PersistentVolumeClaim) []string {
		kind, has := datasource.Kind(claim)
		if !has || claim.Spec.VolumeName != "" {
			return nil
		}
		return []string{kind.String()}
	})}
}

// claimChanges enqueues a claim with a source that was created. A source is immutable.
func claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		if _, has := datasource.Kind(c.New); has && c.IsCreated() {
			q.Add(client.ObjectKeyFromObject(c.New))
		}
	})
}

// populatorChanges enqueues the claims that wait for a kind that is registered, or is not any more.
func (c *Controller) populatorChanges() handler.TypedEventHandler[*kube.VolumePopulator, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[*kube.VolumePopulator], q queue) {
		var kinds []schema.GroupKind
		if !change.IsCreated() {
			kinds = append(kinds, change.Old.Kind())
		}
		if !change.IsDeleted() {
			kinds = append(kinds, change.New.Kind())
		}
		if len(kinds) == 2 && kinds[0] == kinds[1] {
			return
		}
		for _, kind := range kinds {
			var claims corev1.PersistentVolumeClaimList
			if err := c.Cached.List(ctx, &claims, client.MatchingFields{indexSourceKind: kind.String()}); err != nil {
				return // only if there is no such index
			}
			for i := range claims.Items {
				q.Add(client.ObjectKeyFromObject(&claims.Items[i]))
			}
		}
	})
}

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key Key) (s datasource.Snapshot, err error) {
	if s.Claim, err = kube.Get(ctx, c.Cached, key, &corev1.PersistentVolumeClaim{}); err != nil || s.Claim == nil {
		return s, err
	}
	var populators kube.VolumePopulatorList
	if err = c.Cached.List(ctx, &populators); err != nil {
		return s, err
	}
	for i := range populators.Items {
		s.Served = append(s.Served, populators.Items[i].Kind())
	}
	return s, nil
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s datasource.Snapshot, _ time.Time) verdict.Verdict[datasource.Action] {
	return datasource.Decide(s)
}

// Apply implements reconcile.Task: no decision has an action.
func (c *Controller) Apply(
	context.Context, datasource.Snapshot, datasource.Action,
) (verdict.Verdict[datasource.Action], error) {
	return nil, nil
}

// About implements reconcile.Task.
func (c *Controller) About(key Key, s datasource.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
	if s.Claim != nil {
		about.Object = s.Claim
	}
	return about
}
