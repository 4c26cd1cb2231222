package snapshotting

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/reconcile"
)

// SidecarName is the name of the sidecar's controller and of its work queue, as upstream's (SN-A1).
const SidecarName = "csi-snapshotter-content"

// SidecarConfig is what the sidecar's controller needs.
type SidecarConfig struct {
	reconcile.Settings
	core.ContentSettings
	Cached  client.Reader
	Live    client.Reader // for secrets
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
}

// NewSidecar returns the controller without starting anything.
func NewSidecar(cfg SidecarConfig) *Sidecar {
	return &Sidecar{
		SidecarConfig: cfg, retries: reconcile.NewRetries[string](),
		contents: newContentStore(cfg.Cached, cfg.Writer),
	}
}

// Loop returns the controller with the loop around it.
func (c *Sidecar) Loop() *reconcile.Loop[string, core.ContentSnapshot, core.ContentAction] {
	return reconcile.New(reconcile.Config[string, core.ContentSnapshot, core.ContentAction]{
		Settings: c.Settings, Name: SidecarName, Task: c, Retries: c.retries, Bound: c.Timeout + reconcile.APITimeout,
	})
}

// AddTo registers the controller and its event handlers with a manager.
func (c *Sidecar) AddTo(mgr manager.Manager) error {
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: SidecarName, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[string]{
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotContent{}, c.contentEvents()),
			source.TypedKind(mgr.GetCache(), &snapshotv1.VolumeSnapshotClass{}, c.classEvents()),
		},
	})
}

type contentQueue = reconcile.Queue[string]

// Saw notes a content that came through the watch.
func (c *Sidecar) Saw(content *snapshotv1.VolumeSnapshotContent) { c.contents.Saw(content) }

// Gone notes a content that the watch shows as deleted.
func (c *Sidecar) Gone(content *snapshotv1.VolumeSnapshotContent) {
	c.contents.Gone(content)
	c.asked.note(content.UID, time.Time{})
}

func (c *Sidecar) contentEvents() handler.TypedEventHandler[*snapshotv1.VolumeSnapshotContent, string] {
	return reconcile.OnChange(func(
		_ context.Context,
		e reconcile.Change[*snapshotv1.VolumeSnapshotContent],
		q contentQueue,
	) {
		content := e.Object()
		if e.IsDeleted() {
			c.Gone(content)
		} else {
			c.Saw(content)
		}
		if e.IsDeleted() || content.Spec.Driver == c.Driver {
			q.Add(content.Name)
		}
	})
}

// classEvents enqueues the contents that wait for a class.
func (c *Sidecar) classEvents() handler.TypedEventHandler[*snapshotv1.VolumeSnapshotClass, string] {
	changed := func(ctx context.Context, class *snapshotv1.VolumeSnapshotClass, q contentQueue) {
		var contents snapshotv1.VolumeSnapshotContentList
		if err := c.Cached.List(ctx, &contents); err != nil {
			return // the retry of each content finds the class
		}
		for i := range contents.Items {
			one := &contents.Items[i]
			if ptr.Deref(one.Spec.VolumeSnapshotClassName, "") == class.Name && one.Spec.Driver == c.Driver {
				q.Add(one.Name)
			}
		}
	}
	return handler.TypedFuncs[*snapshotv1.VolumeSnapshotClass, string]{
		CreateFunc: func(
			ctx context.Context,
			e event.TypedCreateEvent[*snapshotv1.VolumeSnapshotClass],
			q contentQueue,
		) {
			changed(ctx, e.Object, q)
		},
		UpdateFunc: func(
			ctx context.Context,
			e event.TypedUpdateEvent[*snapshotv1.VolumeSnapshotClass],
			q contentQueue,
		) {
			changed(ctx, e.ObjectNew, q)
		},
	}
}
