package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Config is what an agent needs.
type Config struct {
	reconcile.Settings
	Node    string // name of the node
	Root    string // root directory, as a kubelet's --root-dir
	Runtime mounting.Runtime

	// Cached is the informer cache with own writes; it may have other nodes' pods as well.
	Cached *kube.Overlay
	Live   client.Reader // the API server, for secrets and for pods that the first list does not show
	Writer client.Client // whose writes Cached has

	Timeout   time.Duration // of one call to a driver
	PerDriver int           // volumes of one driver that are worked on at once
	InFlight  *prometheus.GaugeVec
	// Called notes each call to a driver; nil for nothing.
	Called func(driver, method, code string, took time.Duration)
	Spans  *telemetry.Spans // takes each call about a volume; nil for nothing
	// StatsEvery is how often each volume's usage is asked for; 0 for never.
	StatsEvery time.Duration
	// Given are drivers that register without a socket in plugins_registry.
	Given []GivenDriver
}

// Names of the controllers and their work queues.
const (
	NameVolumes = "node-volumes"
	NamePods    = "node-pods"
)

// DefaultTimeout is a kubelet's deadline of a call (5.1).
const DefaultTimeout = 2 * time.Minute

// DefaultStatsEvery is the kubelet's interval between NodeGetVolumeStats calls (5.11).
const DefaultStatsEvery = time.Minute

// runBound ends a run over one volume. Each call has its own deadline; setting the group of many
// files has none.
const runBound = time.Hour

// Agent mounts the volumes of one node.
type Agent struct {
	Config
	layout  mounting.Layout
	records *records
	drivers *drivers
	csiNode *csiNodeUpdater
	inUse   *inUse
	stats   *stats
	caller  *csirpc.Caller

	teller   *reconcile.Teller // events about pods
	finished kube.EndedObjects // pods that the agent has deleted

	mu      sync.Mutex
	volumes queue    // nil before the start
	pods    podQueue // nil before the start
	live    livePods
}

// New returns an agent without starting anything.
func New(cfg Config) *Agent {
	a := &Agent{
		Config: cfg, layout: mounting.Layout{Root: cfg.Root},
		teller: reconcile.NewTeller(cfg.Events, cfg.Clock),
	}
	a.records = newRecords()
	a.drivers = newDrivers(a)
	a.csiNode = newCSINodeUpdater(a)
	a.inUse = newInUse(a)
	a.stats = newStats(a)
	a.caller = csirpc.NewCaller(
		csirpc.CallerConfig{Locks: byKey{}, InFlight: cfg.InFlight, ReadSecret: kube.ReadSecret(cfg.Live)},
	)
	return a
}

// byKey takes no locks: one key of the queue is one volume, and two runs of a key never overlap.
type byKey struct{}

// Begin implements csirpc.Locks.
func (byKey) Begin(string, string, string) (func(), error) { return func() {}, nil }

// loop returns the task about volumes with the loop around it.
func (a *Agent) loop() *reconcile.Loop[mounting.Key, mounting.Snapshot, mounting.Action] {
	return reconcile.New(reconcile.Config[mounting.Key, mounting.Snapshot, mounting.Action]{
		Settings: a.Settings, Name: NameVolumes, Task: a, Retries: reconcile.NewRetries[mounting.Key](),
		Bound:   runBound,
		Observe: a.observe,
	})
}

// AddTo registers the agent with a manager.
func (a *Agent) AddTo(ctx context.Context, mgr manager.Manager) error {
	cache := mgr.GetCache()
	written := []client.Object{&corev1.Node{}, &storagev1.CSINode{}, &corev1.PersistentVolumeClaim{}}
	if err := a.Cached.Watch(ctx, cache, written...); err != nil {
		return err
	}
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
		&storagev1.CSIDriver{},
		&storagev1.VolumeAttachment{}, &storagev1.CSINode{},
	}
	if err := kube.Prewarm(ctx, cache, kinds...); err != nil {
		return err
	}
	err := reconcile.Register(mgr, reconcile.Registration[mounting.Key]{
		Name: NameVolumes, Workers: a.Workers,
		// A driver that hangs does not take the workers of the others.
		Reconciler: reconcile.NewLanes(reconcile.LanesConfig[mounting.Key, string]{
			Reconciler: a.loop(), Most: a.PerDriver, Enqueue: a.enqueue,
			Lane: func(_ context.Context, key mounting.Key) string { return key.Driver },
		}),
		Sources: []source.TypedSource[mounting.Key]{
			source.TypedFunc[mounting.Key](a.start),
			source.TypedKind(cache, &corev1.Pod{}, a.podChangesForVolumes()),
			source.TypedKind(cache, &corev1.PersistentVolumeClaim{}, a.claimChanges()),
			source.TypedKind(cache, &corev1.PersistentVolume{}, a.volumeChanges()),
			source.TypedKind(cache, &storagev1.VolumeAttachment{}, a.attachmentChanges()),
			source.TypedKind(cache, &corev1.Node{}, a.nodeChanges()),
			source.TypedKind(cache, &storagev1.CSINode{}, a.csiNodeChanges()),
			source.TypedKind(cache, &storagev1.CSIDriver{}, a.driverChanges()),
		},
	})
	if err != nil {
		return err
	}
	if err := a.addPods(mgr); err != nil {
		return err
	}
	for _, part := range []manager.Runnable{a.inUse, a.drivers, a.csiNode, a.stats} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("node agent: %w", err)
		}
	}
	return nil
}

// start reads from the disk what an earlier process mounted, before any volume is worked on (5.10).
func (a *Agent) start(ctx context.Context, q queue) error {
	if err := a.reconstruct(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	a.volumes = q
	a.mu.Unlock()
	for _, key := range a.records.keys() {
		q.Add(key)
	}
	a.inUse.begin()
	return nil
}

func (a *Agent) enqueue(key mounting.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.volumes != nil {
		a.volumes.Add(key)
	}
}

// Decide implements reconcile.Task.
func (a *Agent) Decide(s mounting.Snapshot, now time.Time) mounting.Verdict {
	return mounting.Decide(s, now)
}

// About implements reconcile.Task. Events are emitted by actions, since one step concerns several
// pods.
func (a *Agent) About(key mounting.Key, _ mounting.Snapshot) reconcile.About {
	return reconcile.About{Log: []any{"node", a.Node, "driver", key.Driver, "handle", key.VolumeID()}}
}

// observe notes for each pod why its volume is not published, and has the pods looked at.
func (a *Agent) observe(key mounting.Key, s mounting.Snapshot, end mounting.Verdict, _ time.Duration) {
	for _, use := range s.Uses {
		p, _ := a.records.get(key).Publication(use.ID)
		why := end.Because()
		if p.State == mounting.Certain {
			why = verdict.Finding{}
		}
		if a.records.setStatus(key, use.ID, why) {
			a.enqueuePod(use.Pod)
		}
	}
}
