package provision

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"

	"github.com/purser-csi/purser/internal/kube"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings               // Workers is the number of calls to the driver in flight at once
	Cached             *kube.Overlay // the informer cache with this process's own writes
	Live               client.Reader // the API server
	Writer             client.Writer // whose writes are those of Cached
	Journal            Journal
	// HandedOver has the claims that the binder in this process requested volumes for; nil for
	// none.
	HandedOver HandedOver
	// Sharing returns the driver's PersistentVolumes with a handle, read live; nil for none.
	Sharing func(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error)
	Sources Sources // protects the sources of claims; nil for a driver without any
	// Snapshots is [Reader.Snapshots].
	Snapshots client.Reader
	CSI       csi.ControllerClient
	Calls     *csirpc.VolumeLocks // shared with internal/reclaim
	Driver    provision.Driver
	Options   provision.Options

	Timeout    time.Duration         // of one CreateVolume
	Discard    time.Duration         // of one DeleteVolume; 0 for the same
	Provisions *telemetry.Operations // nil for none
	InFlight   *prometheus.GaugeVec
	CallLimit  *prometheus.GaugeVec // calls that may be in flight; nil for none
}

// Name is the name of the controller and of its work queue in upstream's metrics (ME-6).
const Name = "claims"

// runsPerCall is the number of concurrent runs for each call in flight: while one run calls the
// driver, the next one waits for the write of its journal entry.
const runsPerCall = 2

// Controller is the task of the reconcile loop.
type Controller struct {
	Config
	retries  *reconcile.Retries[provision.Key]
	memory   memory
	secrets  *secretVersions
	outdated sync.Map // uids of the classes whose deprecated parameters were logged
	caller   *csirpc.Caller
	survey   survey
	shared   *sharedReads
}

// New returns a controller that is not started.
func New(cfg Config) *Controller {
	if cfg.HandedOver == nil {
		cfg.HandedOver = noHandOver{}
	}
	if cfg.Sources == nil {
		cfg.Sources = noSources{}
	}
	if cfg.Sharing == nil {
		cfg.Sharing = func(context.Context, string) ([]*corev1.PersistentVolume, error) { return nil, nil }
	}
	cfg.Discard = cmp.Or(cfg.Discard, cfg.Timeout)
	c := &Controller{
		Config: cfg, retries: reconcile.NewRetries[provision.Key](), secrets: newSecretVersions(),
	}
	c.shared = newSharedReads(cfg.Clock)
	c.caller = csirpc.NewCaller(csirpc.CallerConfig{
		Slots: max(cfg.Workers, 1), Locks: cfg.Calls, InFlight: cfg.InFlight, Limits: cfg.CallLimit,
		ReadSecret: c.readSecret,
	})
	return c
}

// Loop returns the controller's reconcile loop. Its bound includes the time to wait for calls of
// other runs.
func (c *Controller) Loop() *reconcile.Loop[provision.Key, provision.Snapshot, provision.Action] {
	return reconcile.New(reconcile.Config[provision.Key, provision.Snapshot, provision.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries,
		Bound:   runsPerCall*max(c.Timeout, c.Discard) + reconcile.APITimeout,
		Finally: func(key provision.Key) { c.ended(key.UID) },
		Observe: c.observe, LastingReason: verdict.ProvisioningHeldUp,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	indexes := Indexes()
	c.Cached.Index(indexes...)
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), indexes...); err != nil {
		return err
	}
	if err := c.Cached.Watch(
		ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
	); err != nil {
		return err
	}
	claims, err := mgr.GetCache().GetInformer(ctx, &corev1.PersistentVolumeClaim{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	for _, handler := range []toolscache.ResourceEventHandler{
		c.memory.watch(), onBoundOrDeleted(c.HandedOver.Forget),
	} {
		if _, err := claims.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watch claims: %w", err)
		}
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &storagev1.StorageClass{}, &corev1.PersistentVolume{}); err != nil {
		return err
	}
	nodes, err := c.watchNodes(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[provision.Key]{
		Name: Name, Workers: runsPerCall * c.Workers,
		Reconciler: reconcile.PutOff(c.Loop(), func() bool { return c.caller.IsCrowded("CreateVolume") }),
		Sources: append(nodes,
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, latest(c.fromClaim)),
			source.TypedKind(mgr.GetCache(), &storagev1.StorageClass{}, created(c.fromClass, edited)),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, deleted(c.fromVolume)),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, reconcile.OnChange(c.fromSource)),
			source.TypedFunc[provision.Key](c.fromJournal),
			source.TypedFunc[provision.Key](c.fromBinder),
			source.TypedFunc[provision.Key](c.fromShared),
		),
	})
}
