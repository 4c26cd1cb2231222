package protection

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/reconcile"
)

// Config is what each of the controllers needs.
type Config struct {
	reconcile.Settings
	Cached client.Reader // answers from memory; pods, claims, volumes and classes may be trimmed (kube.TrimPod and the like)
	Live   client.Reader // answers from the API server
	Writer client.Writer
	Status client.SubResourceWriter // for the condition Unused of claims

	// Together are the drivers whose provisioner runs in this process and drops the finalizer of a PersistentVolume together with its
	// own, at this moment; see core/protection.Volume. Nil for none.
	Together func() []string
}

// Names of the controllers and of their work queues, as upstream's metrics have them.
const (
	NameClaims  = "pvcprotection"
	NameVolumes = "pvprotection"
	NameClasses = "vacprotection"
	// NameNamespaces is the queue of the namespaces whose pods are to be listed; upstream has it inside of the first.
	NameNamespaces = "pvcprotection_namespaces"
	// NameUnused is the queue of the claims whose condition Unused may have to be written; upstream has it inside of the first.
	NameUnused = "pvcprotection_unused"
)

// apiBound is the time of one run, for the API server to answer.
const apiBound = 30 * time.Second

type (
	next   = verdict.Verdict[protection.Action]
	action = protection.Action
)

func loopFor[K comparable, S any](c Config, name string, task reconcile.Task[K, S, action]) *reconcile.Loop[K, S, action] {
	return reconcile.New(reconcile.Config[K, S, action]{
		Settings: c.Settings, Name: name, Task: task, Retries: reconcile.NewRetries[K](), Bound: apiBound,
	})
}
