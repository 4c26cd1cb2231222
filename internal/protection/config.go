package protection

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what each of the controllers needs.
type Config struct {
	reconcile.Settings
	// Cached has this process's own writes; pods, claims, volumes and classes may be trimmed
	// (kube.TrimPod and the like).
	Cached *kube.Overlay
	Live   client.Reader // the API server
	Writer client.Client // records what it writes in Cached

	// ColocatedDrivers are the drivers whose provisioner runs in this process and drops the finalizer of a
	// PersistentVolume together with its own, at this moment; see internal/protection/rules.Volume. Nil for
	// none.
	ColocatedDrivers func() []string

	// Snapshots is what a snapshot-controller in this process knows of the claims that it takes snapshots
	// of; nil for none. SnapshotUsers returns the VolumeSnapshots that are being taken of a claim, as the
	// informer cache shows them, whichever process began them.
	Snapshots     *handoff.Snapshots
	SnapshotUsers func(ctx context.Context, cached client.Reader, claim *corev1.PersistentVolumeClaim) ([]string, error)
}

// Names of the controllers and of their work queues, as upstream's metrics have them.
const (
	NameClaims  = "pvcprotection"
	NameVolumes = "pvprotection"
	NameClasses = "vacprotection"
	// NameNamespaces is the queue of the namespaces whose pods are to be listed; upstream has it
	// inside of the first.
	NameNamespaces = "pvcprotection_namespaces"
	// NameUnused is the queue of the claims whose condition Unused may have to be written; upstream
	// has it inside of the first.
	NameUnused = "pvcprotection_unused"
)

type (
	next   = verdict.Verdict[protection.Action]
	action = protection.Action
)

// registration adds a controller with its loop to a manager.
type registration[S any] struct {
	config Config
	name   string
	task   reconcile.Task[Key, S, action]
	kinds  []client.Object // that the controller writes
	// indexes are those of the gather.
	indexes []kube.Index
	// ended is called after each run; nil for nothing.
	ended   func(key Key, s S)
	sources []source.TypedSource[Key]
}

func (r registration[S]) addTo(ctx context.Context, mgr manager.Manager) error {
	c := r.config
	c.Cached.Index(r.indexes...)
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), r.indexes...); err != nil {
		return err
	}
	if err := c.Cached.Watch(ctx, mgr.GetCache(), r.kinds...); err != nil {
		return err
	}
	loop := reconcile.New(reconcile.Config[Key, S, action]{
		Settings: c.Settings, Name: r.name, Task: r.task, Retries: reconcile.NewRetries[Key](),
		Bound: reconcile.APITimeout,
		Observe: func(key Key, s S, _ next, _ time.Duration) {
			if r.ended != nil {
				r.ended(key, s)
			}
		},
	})
	return reconcile.Register(
		mgr, reconcile.Registration[Key]{Name: r.name, Workers: c.Workers, Reconciler: loop, Sources: r.sources},
	)
}
