package snapshot

import (
	"context"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reclaim"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The names of the sidecar's controllers and of their work queues are upstream's (SN-A1, SN-M2).
const (
	SidecarName      = "csi-snapshotter-content"
	GroupSidecarName = "csi-snapshotter-groupsnapshotcontent"
)

// SidecarConfig is what the sidecar's controllers need.
type SidecarConfig struct {
	reconcile.Settings
	rules.ContentSettings
	Cached  *kube.Overlay
	Live    client.Reader // for secrets, and contents with one handle
	Writer  client.Client // whose writes are laid over Cached
	CSI     csi.ControllerClient
	Timeout time.Duration // of one call to the driver
	Caller  *csirpc.Caller
	// Journal has the calls that create snapshots, with ContentSettings.Journal; nil for none.
	Journal Journal
	// Together is what the roles of this process know of snapshots; nil for none.
	Together *handoff.Snapshots
}

// GroupSidecarConfig is what the sidecar's controller of groups needs.
type GroupSidecarConfig struct {
	SidecarConfig
	Groups csi.GroupControllerClient
	Naming rules.Naming // of groups
}

type (
	// Sidecar works on the VolumeSnapshotContents of one driver.
	Sidecar = ContentController[*snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass]
	// GroupSidecar works on the VolumeGroupSnapshotContents of one driver.
	GroupSidecar = ContentController[*groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass]
)

// ContentController works on the contents of one kind and driver.
type ContentController[C contents, L classes] struct {
	SidecarConfig
	store
	name, logKey string
	indexes      []kube.Index
	driver       driver
	retries      *reconcile.Retries[string]
	memory       memory
	calls        sync.Map // by name: the uid of a content with a recorded call in this run
	// sharing returns the contents that may have the same handle: the cached ones, if the cache is as new
	// as it must be for the first attempt, else nil; or those of the API server.
	sharing interface {
		cached(ctx context.Context, content C) (*rules.Sharing, error)
		live(ctx context.Context, content C, handle string, again bool) (*rules.Sharing, error)
	}
}

// NewSidecar returns the controller without starting anything.
func NewSidecar(cfg SidecarConfig) *Sidecar {
	indexes := ContentIndexes()
	cfg.Cached.Index(indexes...)
	cfg.Events = recorder{cfg.Events}
	cfg.ContentSettings.Journal = cfg.Journal != nil
	lists := &handleLists{
		cachedReader: cfg.Cached, liveReader: cfg.Live, driver: cfg.Driver, together: cfg.Together,
	}
	lists.SameHandleLists = reclaim.NewSameHandleLists(lists.list)
	return &Sidecar{
		SidecarConfig: cfg, store: store{cfg.Cached, cfg.Writer}, name: SidecarName,
		logKey:  telemetry.KeySnapshotContent,
		indexes: indexes, driver: snapshotDriver{cfg.CSI}, retries: reconcile.NewRetries[string](), sharing: lists,
	}
}

// NewGroupSidecar returns the controller without starting anything.
func NewGroupSidecar(cfg GroupSidecarConfig) *GroupSidecar {
	cfg.Events = recorder{cfg.Events}
	cfg.SidecarConfig.Naming, cfg.Node = cfg.Naming, ""
	cfg.Journal, cfg.Together = nil, nil // they are for single snapshots
	return &GroupSidecar{
		SidecarConfig: cfg.SidecarConfig, store: store{cfg.Cached, cfg.Writer}, name: GroupSidecarName,
		logKey: telemetry.KeyGroupSnapshotContent, driver: groupDriver{cfg.Groups},
		retries: reconcile.NewRetries[string](), sharing: groupLists{cfg.Live},
	}
}

// Loop returns the controller with the loop around it.
func (c *ContentController[C, L]) Loop() *reconcile.Loop[string, rules.ContentState[C, L], rules.ContentAction] {
	return reconcile.New(reconcile.Config[string, rules.ContentState[C, L], rules.ContentAction]{
		Settings: c.Settings, Name: c.name, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
		Finally: c.endCall,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *ContentController[C, L]) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), c.indexes...); err != nil {
		return err
	}
	if err := c.Cached.Watch(ctx, mgr.GetCache(), blank[C]()); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: c.name, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[string]{
			source.TypedKind(mgr.GetCache(), blank[C](), c.contentEvents()),
			source.TypedKind(mgr.GetCache(), blank[L](), c.classEvents()),
			source.TypedFunc[string](c.fromJournal),
		},
	})
}

type contentQueue = reconcile.Queue[string]

// Changed notes an event of the watch, before the keys that it leads to are enqueued.
func (c *ContentController[C, L]) Changed(e reconcile.Change[C]) {
	switch {
	case e.IsDeleted():
		c.memory.forget(e.Old.GetUID())
		c.contentGone(e.Old.GetUID())
	case e.Old != nil && !rules.IsRemovable(e.Old) && rules.IsRemovable(marked(c.Together, e.New)):
		c.memory.becameRemovable(e.New.GetUID())
	}
}

func (c *ContentController[C, L]) contentEvents() handler.TypedEventHandler[C, string] {
	return reconcile.OnChange(func(_ context.Context, e reconcile.Change[C], q contentQueue) {
		c.Changed(e)
		if e.IsDeleted() || driverName(e.Object()) == c.Driver {
			q.Add(e.Object().GetName())
		}
	})
}

// classEvents enqueues the contents that wait for a class.
func (c *ContentController[C, L]) classEvents() handler.TypedEventHandler[L, string] {
	return reconcile.OnChange(func(ctx context.Context, e reconcile.Change[L], q contentQueue) {
		for _, one := range cachedItems[C](ctx, c.Cached) {
			if ptr.Deref(*rules.ClassNameOf(one), "") == e.Object().GetName() && driverName(one) == c.Driver {
				q.Add(one.GetName())
			}
		}
	})
}
