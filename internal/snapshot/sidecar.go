package snapshot

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reclaim"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// SidecarName is the name of the sidecar's controller and of its work queue, as upstream's (SN-A1).
const SidecarName = "csi-snapshotter-content"

// SidecarConfig is what the sidecar's controller needs.
type SidecarConfig struct {
	reconcile.Settings
	rules.ContentSettings
	Cached  client.Reader
	Live    client.Reader // for secrets, and contents with one handle
	Writer  client.Client
	CSI     csi.ControllerClient
	Timeout time.Duration // of one call to the driver
	Caller  *csirpc.Caller
}

// Sidecar works on the VolumeSnapshotContents of one driver.
type Sidecar struct {
	SidecarConfig
	retries  *reconcile.Retries[string]
	contents store[*snapshotv1.VolumeSnapshotContent]
	asked    askedTimes
	removals removals
	// sameHandle lists the contents live by handle.
	sameHandle *reclaim.SameHandleLists
}

// NewSidecar returns the controller without starting anything.
func NewSidecar(cfg SidecarConfig) *Sidecar {
	cfg.Events = recorder{cfg.Events}
	c := &Sidecar{
		SidecarConfig: cfg, retries: reconcile.NewRetries[string](),
		contents: newContentStore(cfg.Cached, cfg.Writer),
	}
	c.sameHandle = reclaim.NewSameHandleLists(c.listContents)
	return c
}

// Loop returns the controller with the loop around it.
func (c *Sidecar) Loop() *reconcile.Loop[string, rules.ContentSnapshot, rules.ContentAction] {
	return reconcile.New(reconcile.Config[string, rules.ContentSnapshot, rules.ContentAction]{
		Settings: c.Settings, Name: SidecarName, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
	})
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Sidecar) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), ContentIndexes()...); err != nil {
		return err
	}
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: SidecarName, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[string]{
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotContent{}, c.contentEvents()),
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotClass{}, c.classEvents()),
		},
	})
}

type contentQueue = reconcile.Queue[string]

// Changed notes an event of the watch, before the keys that it leads to are enqueued.
func (c *Sidecar) Changed(e reconcile.Change[*snapshotv1.VolumeSnapshotContent]) {
	c.removals.note(e.Old, e.New)
	if !e.IsDeleted() {
		c.contents.Saw(e.New)
		return
	}
	c.contents.Gone(e.Old)
	c.asked.note(e.Old.UID, time.Time{})
}

func (c *Sidecar) contentEvents() handler.TypedEventHandler[*snapshotv1.VolumeSnapshotContent, string] {
	return reconcile.OnChange(func(
		_ context.Context, e reconcile.Change[*snapshotv1.VolumeSnapshotContent], q contentQueue,
	) {
		content := e.Object()
		c.Changed(e)
		if e.IsDeleted() || content.Spec.Driver == c.Driver {
			q.Add(content.Name)
		}
	})
}

// classEvents enqueues the contents that wait for a class.
func (c *Sidecar) classEvents() handler.TypedEventHandler[*snapshotv1.VolumeSnapshotClass, string] {
	return reconcile.OnChange(func(
		ctx context.Context, e reconcile.Change[*snapshotv1.VolumeSnapshotClass], q contentQueue,
	) {
		for _, one := range cachedItems[*snapshotv1.VolumeSnapshotContent](
			ctx, c.Cached, &snapshotv1.VolumeSnapshotContentList{},
		) {
			if ptr.Deref(one.Spec.VolumeSnapshotClassName, "") == e.Object().Name && one.Spec.Driver == c.Driver {
				q.Add(one.Name)
			}
		}
	})
}
