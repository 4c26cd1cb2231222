package protection

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what each of the controllers needs.
type Config struct {
	reconcile.Settings
	// answers from memory; pods, claims, volumes and classes may be trimmed (kube.TrimPod and the
	// like)
	Cached client.Reader
	Live   client.Reader // answers from the API server
	Writer client.Writer
	Status client.SubResourceWriter // for the condition Unused of claims

	// ColocatedDrivers are the drivers whose provisioner runs in this process and drops the finalizer of a
	// PersistentVolume together with its own, at this moment; see internal/protection/rules.Volume. Nil for
	// none.
	ColocatedDrivers func() []string
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

// task is a controller of this package. After a run, ended drops what was used up by it and what was
// remembered of an object that is gone.
type task[S any] interface {
	reconcile.Task[Key, S, action]
	ended(key Key, s S)
}

// register adds a controller with its loop to a manager.
func register[S any](mgr manager.Manager, c Config, name string, t task[S], sources ...source.TypedSource[Key]) error {
	loop := reconcile.New(reconcile.Config[Key, S, action]{
		Settings: c.Settings, Name: name, Task: t, Retries: reconcile.NewRetries[Key](), Bound: reconcile.APITimeout,
		Observe: func(key Key, s S, _ next, _ time.Duration) { t.ended(key, s) },
	})
	return reconcile.Register(
		mgr, reconcile.Registration[Key]{Name: name, Workers: c.Workers, Reconciler: loop, Sources: sources},
	)
}
