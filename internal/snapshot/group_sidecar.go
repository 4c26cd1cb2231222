package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"

	"github.com/purser-csi/purser/internal/telemetry"
)

// GroupSidecarName is the name of the sidecar's controller of groups and of its work queue, as
// upstream's (SN-M2).
const GroupSidecarName = "csi-snapshotter-groupsnapshotcontent"

// GroupSidecarConfig is what the sidecar's controller of groups needs.
type GroupSidecarConfig struct {
	SidecarConfig
	Groups csi.GroupControllerClient
	Naming rules.Naming // of groups
}

// GroupSidecar works on the VolumeGroupSnapshotContents of one driver.
type GroupSidecar struct {
	GroupSidecarConfig
	retries  *reconcile.Retries[string]
	contents store[*groupv1.VolumeGroupSnapshotContent]
	asked    askedTimes
}

// NewGroupSidecar returns the controller without starting anything.
func NewGroupSidecar(cfg GroupSidecarConfig) *GroupSidecar {
	cfg.Events = recorder{cfg.Events}
	return &GroupSidecar{
		GroupSidecarConfig: cfg, retries: reconcile.NewRetries[string](),
		contents: newGroupContentStore(cfg.Cached, cfg.Writer),
	}
}

// Loop returns the controller with the loop around it.
func (c *GroupSidecar) Loop() *reconcile.Loop[string, rules.Content, rules.ContentAction] {
	return reconcile.New(reconcile.Config[string, rules.Content, rules.ContentAction]{
		Settings: c.Settings, Name: GroupSidecarName, Task: c, Retries: c.retries,
		Bound: c.Timeout + reconcile.APITimeout,
	})
}

// AddTo registers the controller and its event handlers with a manager.
func (c *GroupSidecar) AddTo(mgr manager.Manager) error {
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: GroupSidecarName, Workers: c.Workers, Reconciler: c.Loop(),
		Sources: []source.TypedSource[string]{
			source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshotContent{}, c.contentEvents()),
			source.TypedKind(mgr.GetCache(), &groupv1.VolumeGroupSnapshotClass{}, c.classEvents()),
		},
	})
}

// Saw notes a content that came through the watch.
func (c *GroupSidecar) Saw(content *groupv1.VolumeGroupSnapshotContent) { c.contents.Saw(content) }

// Gone notes a content that the watch shows as deleted.
func (c *GroupSidecar) Gone(content *groupv1.VolumeGroupSnapshotContent) {
	c.contents.Gone(content)
	c.asked.note(content.UID, time.Time{})
}

func (c *GroupSidecar) contentEvents() handler.TypedEventHandler[*groupv1.VolumeGroupSnapshotContent, string] {
	return reconcile.OnChange(func(
		_ context.Context, e reconcile.Change[*groupv1.VolumeGroupSnapshotContent], q contentQueue,
	) {
		content := e.Object()
		if e.IsDeleted() {
			c.Gone(content)
		} else {
			c.Saw(content)
		}
		if content.Spec.Driver == c.Driver {
			q.Add(content.Name)
		}
	})
}

// classEvents enqueues the contents that wait for a class.
func (c *GroupSidecar) classEvents() handler.TypedEventHandler[*groupv1.VolumeGroupSnapshotClass, string] {
	return reconcile.OnChange(func(
		ctx context.Context, e reconcile.Change[*groupv1.VolumeGroupSnapshotClass], q contentQueue,
	) {
		for _, one := range cachedItems[*groupv1.VolumeGroupSnapshotContent](
			ctx, c.Cached, &groupv1.VolumeGroupSnapshotContentList{},
		) {
			if ptr.Deref(one.Spec.VolumeGroupSnapshotClassName, "") == e.Object().Name && one.Spec.Driver == c.Driver {
				q.Add(one.Name)
			}
		}
	})
}

// Gather implements reconcile.Task.
func (c *GroupSidecar) Gather(ctx context.Context, name string) (rules.Content, error) {
	o := rules.GroupContentSettings{Driver: c.Driver, Naming: c.Naming, ExtraMetadata: c.ExtraMetadata}
	content, err := c.contents.get(ctx, types.NamespacedName{Name: name})
	if err != nil || content == nil {
		return rules.Content{GroupContentSettings: o}, err
	}
	s, err := GatherGroupContent(ctx, c.Cached, content, o)
	if err != nil {
		return s, err
	}
	s.Asked = c.asked.last(s.Content.UID)
	if retry := c.retries.Get(name); retry.Inputs == inputs(s.Content, s.Class) {
		s.NotBefore = retry.NotBefore
	}
	return s, nil
}

// Decide implements reconcile.Task.
func (c *GroupSidecar) Decide(s rules.Content, now time.Time) rules.ContentVerdict {
	return rules.DecideGroupContent(s, now)
}

// About implements reconcile.Task.
func (c *GroupSidecar) About(name string, s rules.Content) reconcile.About {
	about := reconcile.About{
		Log:    []any{telemetry.KeyGroupSnapshotContent, name},
		Inputs: func() string { return inputs(s.Content, s.Class) },
	}
	if s.Content != nil {
		about.Object, about.Users = s.Content, []runtime.Object{groupUserOf(s.Content)}
	}
	return about
}

// Apply implements reconcile.Task.
func (c *GroupSidecar) Apply(
	ctx context.Context, s rules.Content, action rules.ContentAction,
) (rules.ContentVerdict, error) {
	switch a := action.(type) {
	case rules.ClearCreating:
		return nil, c.contents.annotate(ctx, s.Content, names.AnnGroupBeingCreated, nil)
	case rules.GroupWriteContentStatus:
		return nil, c.contents.writeStatus(ctx, s.Content, func(content *groupv1.VolumeGroupSnapshotContent) {
			content.Status = a.Status
		})
	case rules.ReleaseContent:
		return nil, c.contents.release(ctx, s.Content, names.FinalizerGroupContent)
	case rules.CreateGroup:
		answer, failure, err := c.create(ctx, s.Content, a)
		if err != nil {
			return nil, err
		}
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return rules.GroupAfterCreate(s, answer, failure, c.Clock.Now()), nil
	case rules.FindGroup:
		answer, failure, err := c.find(ctx, a)
		if err != nil {
			return nil, err
		}
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return rules.GroupAfterFind(s, answer, failure, c.Clock.Now()), nil
	case rules.ListSharing:
		others, err := c.listSharing(ctx, s.Content)
		if err != nil {
			return nil, err
		}
		return rules.GroupAfterList(s, others, c.Clock.Now()), nil
	case rules.DeleteGroup:
		failure, err := c.delete(ctx, a)
		if err != nil {
			return nil, err
		}
		return rules.GroupAfterDelete(s, failure), nil
	default: // of contents of the other kind
		return nil, fmt.Errorf("unknown action %T", action)
	}
}

func (c *GroupSidecar) create(
	ctx context.Context, content *groupv1.VolumeGroupSnapshotContent, a rules.CreateGroup,
) (answer rules.GroupAnswer, failure *rules.Failure, err error) {
	failure, err = c.call(ctx, csirpc.Call{
		Method: "CreateVolumeGroupSnapshot", Volume: a.Name, Secret: a.Secret,
		Mark: mark(c.contents, content, names.AnnGroupBeingCreated, a.Mark),
		Send: func(ctx context.Context, secrets map[string]string) error {
			response, err := c.Groups.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{
				Name: a.Name, SourceVolumeIds: a.Sources, Parameters: a.Parameters, Secrets: secrets,
			})
			if err == nil {
				answer = groupAnswer(response.GetGroupSnapshot())
			}
			return err
		},
	})
	return answer, failure, err
}

func (c *GroupSidecar) find(
	ctx context.Context, a rules.FindGroup,
) (answer rules.GroupAnswer, failure *rules.Failure, err error) {
	failure, err = c.call(ctx, csirpc.Call{
		Method: "GetVolumeGroupSnapshot", Volume: a.Handle, Secret: a.Secret,
		Send: func(ctx context.Context, secrets map[string]string) error {
			response, err := c.Groups.GetVolumeGroupSnapshot(ctx, &csi.GetVolumeGroupSnapshotRequest{
				GroupSnapshotId: a.Handle, SnapshotIds: a.Snapshots, Secrets: secrets,
			})
			if err == nil {
				answer = groupAnswer(response.GetGroupSnapshot())
			}
			return err
		},
	})
	return answer, failure, err
}

// delete calls the driver without its secret if that does not exist, as for volumes (D-15).
func (c *GroupSidecar) delete(ctx context.Context, a rules.DeleteGroup) (*rules.Failure, error) {
	return c.call(ctx, csirpc.Call{
		Method: "DeleteVolumeGroupSnapshot", Volume: a.Handle, Secret: a.Secret, Absent: csirpc.CallWithoutSecret,
		Send: func(ctx context.Context, secrets map[string]string) error {
			_, err := c.Groups.DeleteVolumeGroupSnapshot(ctx, &csi.DeleteVolumeGroupSnapshotRequest{
				GroupSnapshotId: a.Handle, SnapshotIds: a.Snapshots, Secrets: secrets,
			})
			return err
		},
	})
}

func groupAnswer(group *csi.VolumeGroupSnapshot) rules.GroupAnswer {
	a := rules.GroupAnswer{Handle: group.GetGroupSnapshotId(), Ready: group.GetReadyToUse()}
	if at := group.GetCreationTime(); at != nil {
		a.Created = at.AsTime()
	}
	for _, one := range group.GetSnapshots() {
		info := groupv1.VolumeSnapshotInfo{
			VolumeHandle: one.GetSourceVolumeId(), SnapshotHandle: one.GetSnapshotId(),
			ReadyToUse: new(one.GetReadyToUse()),
		}
		if one.GetSizeBytes() > 0 {
			info.RestoreSize = new(one.GetSizeBytes())
		}
		if at := one.GetCreationTime(); at != nil {
			info.CreationTime = new(at.AsTime().UnixNano())
		}
		a.Snapshots = append(a.Snapshots, info)
	}
	return a
}
