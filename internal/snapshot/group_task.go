package snapshot

import (
	"context"
	"fmt"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task.
func (g *GroupController) Gather(ctx context.Context, key types.NamespacedName) (rules.Group, error) {
	return GatherGroup(ctx, kube.Readers{Cached: g.Cached, Live: g.Live}, key, GroupMemory{
		Settings: rules.GroupSettings{SourceMode: g.Mode.SourceMode}, Group: g.groups.get,
		GroupContent: g.groupContents.get, Snapshot: g.snapshots.get, Content: g.contents.get,
	})
}

// Decide implements reconcile.Task.
func (g *GroupController) Decide(s rules.Group, now time.Time) rules.GroupVerdict {
	return rules.DecideGroup(s, now)
}

// About implements reconcile.Task.
func (g *GroupController) About(key types.NamespacedName, s rules.Group) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyGroupSnapshot, key.String()}}
	if s.Snapshot != nil {
		about.Object = s.Snapshot
	}
	return about
}

// Apply implements reconcile.Task.
func (g *GroupController) Apply(
	ctx context.Context, s rules.Group, action rules.GroupAction,
) (rules.GroupVerdict, error) {
	switch a := action.(type) {
	case rules.PrepareGroup:
		return nil, g.groups.changeNewest(ctx, s.Snapshot, func(group *groupv1.VolumeGroupSnapshot) {
			addFinalizers(group, names.FinalizerGroupSnapshot)
			if a.Class != "" {
				group.Spec.VolumeGroupSnapshotClassName = new(a.Class)
			}
		})
	case rules.ReleaseGroup:
		return nil, client.IgnoreNotFound(g.groups.changeNewest(ctx, s.Snapshot,
			func(group *groupv1.VolumeGroupSnapshot) {
				removeFinalizers(group, names.FinalizerGroupSnapshot)
			}))
	case rules.GroupWriteStatus:
		return nil, g.groups.writeStatus(ctx, s.Snapshot, func(group *groupv1.VolumeGroupSnapshot) {
			group.Status = a.Status
		})
	case rules.GroupCreateContent:
		return nil, g.groupContents.create(ctx, a.Content)
	case rules.GroupBindContent:
		return nil, g.groupContents.change(ctx, s.Content, func(content *groupv1.VolumeGroupSnapshotContent) {
			addFinalizers(content, names.FinalizerGroupContent)
			content.Spec.VolumeGroupSnapshotRef.UID = s.Snapshot.UID
			if a.Class != "" {
				content.Spec.VolumeGroupSnapshotClassName = new(a.Class)
			}
		})
	case rules.GroupProtectContent:
		return nil, g.groupContents.change(ctx, a.Content, func(content *groupv1.VolumeGroupSnapshotContent) {
			addFinalizers(content, names.FinalizerGroupContent)
		})
	case rules.CreateMember:
		return nil, g.createMember(ctx, s, a)
	case rules.GroupMarkDeleting:
		marked, err := g.groupContents.annotated(ctx, s.Content, names.AnnGroupBeingDeleted, "yes")
		if err != nil {
			return nil, err
		}
		return rules.GroupAfterMark(s, marked), nil
	case rules.GroupDeleteContent:
		return nil, g.groupContents.delete(ctx, s.Content)
	case rules.DeleteMember:
		member := &snapshotv1.VolumeSnapshot{}
		member.Namespace, member.Name = s.Key.Namespace, a.Name
		return nil, client.IgnoreNotFound(g.Writer.Delete(ctx, member))
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// createMember makes one member step by step: the VolumeSnapshot, the content that refers to it by
// its uid, the status of the content, the status of the VolumeSnapshot. After a crash the steps
// that were taken are found again, since the names follow from the group and the volume.
func (g *GroupController) createMember(ctx context.Context, s rules.Group, a rules.CreateMember) error {
	vs, err := createOrGet(ctx, g, a.Snapshot.DeepCopy(), &snapshotv1.VolumeSnapshot{})
	if err != nil {
		return err
	}
	if !hasOwner(vs, s.Snapshot.UID) {
		return fmt.Errorf("VolumeSnapshot %s/%s exists and is no member of the group; delete it", vs.Namespace, vs.Name)
	}
	g.snapshots.Wrote(vs)
	wanted := a.Content.DeepCopy()
	wanted.Spec.VolumeSnapshotRef.UID = vs.UID
	content, err := createOrGet(ctx, g, wanted, &snapshotv1.VolumeSnapshotContent{})
	if err != nil {
		return err
	}
	if content.Status == nil {
		changed := content.DeepCopy()
		changed.Status = a.ContentStatus
		if err := g.writeMemberStatus(ctx, content, changed); err != nil {
			return err
		}
		content = changed
	}
	g.contents.Wrote(content)
	if vs.Status != nil {
		return nil
	}
	changed := vs.DeepCopy()
	changed.Status = a.SnapshotStatus
	if err := g.writeMemberStatus(ctx, vs, changed); err != nil {
		return err
	}
	g.snapshots.Wrote(changed)
	return nil
}

func (g *GroupController) writeMemberStatus(ctx context.Context, before, changed client.Object) error {
	patch, err := fieldsOf(before, changed)
	if err == nil {
		err = g.Writer.Status().Patch(ctx, changed, patch)
	}
	if err != nil {
		return fmt.Errorf("write the status of %q: %w", before.GetName(), err)
	}
	return nil
}

// createOrGet creates an object, or reads the one of its name that exists from the API server.
func createOrGet[T client.Object](ctx context.Context, g *GroupController, o, into T) (T, error) {
	var none T
	err := g.Writer.Create(ctx, o)
	if err == nil {
		return o, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return none, fmt.Errorf("create %q: %w", o.GetName(), err)
	}
	if err := g.Live.Get(ctx, client.ObjectKeyFromObject(o), into); err != nil {
		return none, fmt.Errorf("read %q: %w", o.GetName(), err)
	}
	return into, nil
}

func hasOwner(o client.Object, uid types.UID) bool {
	for _, owner := range o.GetOwnerReferences() {
		if owner.UID == uid {
			return true
		}
	}
	return false
}
