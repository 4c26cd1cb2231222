package reclaim

import (
	"context"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what the controller needs.
type Config struct {
	reconcile.Settings
	Cached *kube.Overlay // the informer cache with this process's own writes
	Live   client.Reader // the API server
	// AllVolumes reads live the PersistentVolumes that may have the handle of one of ours, also
	// those of other nodes; nil for Live.
	AllVolumes client.Reader
	Writer     client.Writer // records what it writes in Cached
	CSI        csi.ControllerClient
	Calls      *csirpc.VolumeLocks // shared with internal/provision
	Driver     reclaim.Driver
	// Journal is the journal of internal/provision; nil for none.
	Journal Journal
	// DropProtection removes the finalizer of PV protection with ours, for a process that also has
	// that controller.
	DropProtection bool
	// DropAttacher removes the attacher's finalizer with ours, for a process that also has the attacher of
	// the driver.
	DropAttacher bool

	Sources []source.TypedSource[string] // of further PersistentVolume names to enqueue

	Timeout   time.Duration         // of one call to the driver
	Deletions *telemetry.Operations // nil for none
	InFlight  *prometheus.GaugeVec
	CallLimit *prometheus.GaugeVec // calls that may be in flight; nil for none
}

// Journal returns when CreateVolume calls of a previous leader must have ended.
type Journal interface {
	// Wait returns when the journal has been taken over.
	Wait(ctx context.Context) error
	// CallsEnd returns when the calls that may create the named volume must have ended; zero for
	// none.
	CallsEnd(volume string, claim types.UID) time.Time
}

// noJournal is the Journal of a process without one.
type noJournal struct{}

func (noJournal) Wait(context.Context) error           { return nil }
func (noJournal) CallsEnd(string, types.UID) time.Time { return time.Time{} }

// Name is the name of the controller and of its work queue in upstream's metrics (ME-6).
const Name = "volumes"

// Controller is the task of the reconcile loop.
type Controller struct {
	Config
	retries         *reconcile.Retries[string]
	memory          memory
	sameHandleLists *SameHandleLists
	caller          *csirpc.Caller
}

// New returns a controller that is not started.
func New(cfg Config) *Controller {
	if cfg.Journal == nil {
		cfg.Journal = noJournal{}
	}
	c := &Controller{Config: cfg, retries: reconcile.NewRetries[string]()}
	c.sameHandleLists = NewSameHandleLists(func(ctx context.Context, into map[string][]string) error {
		return c.reader().listVolumes(ctx, into)
	})
	c.caller = csirpc.NewCaller(
		csirpc.CallerConfig{
			Slots: max(cfg.Workers, 1),
			Locks: cfg.Calls, InFlight: cfg.InFlight, Limits: cfg.CallLimit, ReadSecret: kube.ReadSecret(cfg.Live),
		},
	)
	return c
}

// Loop returns the controller's reconcile loop.
func (c *Controller) Loop() *reconcile.Loop[string, reclaim.Snapshot, reclaim.Action] {
	return reconcile.New(reconcile.Config[string, reclaim.Snapshot, reclaim.Action]{
		Settings: c.Settings, Name: Name, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
		Observe: c.observe, LastingReason: verdict.DeletionHeldUp,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Controller) AddTo(ctx context.Context, mgr manager.Manager) error {
	indexes := Indexes(c.Driver)
	c.Cached.Index(indexes...)
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), indexes...); err != nil {
		return err
	}
	if err := c.Cached.Watch(ctx, mgr.GetCache(), &corev1.PersistentVolume{}); err != nil {
		return err
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	sources := append(slices.Clone(c.Sources),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, c.changes()),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, deleted(c.fromSameHandle)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, releasing(c.fromClaim)),
	)
	if c.Driver.Attaches() {
		sources = append(sources, source.TypedKind(
			mgr.GetCache(), &storagev1.VolumeAttachment{}, deleted(c.fromAttachment),
		))
	}
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: Name, Workers: c.Workers, Sources: sources,
		Reconciler: reconcile.PutOff(c.Loop(), func() bool { return c.caller.IsCrowded("DeleteVolume") }),
	})
}
