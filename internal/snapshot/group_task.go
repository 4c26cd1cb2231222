package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
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
	s := rules.Group{GroupSettings: rules.GroupSettings{SourceMode: g.Mode.SourceMode}, Key: key}
	var err error
	if s.Snapshot, err = g.groups.get(ctx, key); err != nil {
		return s, err
	}
	if s.Snapshot == nil {
		return s, g.gatherUnprotected(ctx, &s)
	}
	if s.Content, err = g.groupContent(ctx, s.Snapshot); err != nil {
		return s, err
	}
	if s.Snapshot.DeletionTimestamp != nil {
		return s, g.gatherOwned(ctx, &s)
	}
	if s.Content == nil {
		return s, g.gatherSources(ctx, &s)
	}
	return s, g.gatherMembers(ctx, &s)
}

// gatherUnprotected reads the contents that refer to a group that does not exist (SN-V3).
func (g *GroupController) gatherUnprotected(ctx context.Context, s *rules.Group) error {
	var all groupv1.VolumeGroupSnapshotContentList
	if err := g.Cached.List(ctx, &all, client.MatchingFields{indexGroupRef: s.Key.String()}); err != nil {
		return fmt.Errorf("read the contents of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	for i := range all.Items {
		one, err := g.groupContents.get(ctx, client.ObjectKeyFromObject(&all.Items[i]))
		if err != nil {
			return err
		}
		if one != nil && rules.GroupLacksFinalizer(one) {
			s.Unprotected = append(s.Unprotected, one)
		}
	}
	return nil
}

// groupContent returns the content of a group. What follows from its absence must not follow from a
// stale cache: the API server is asked.
func (g *GroupController) groupContent(
	ctx context.Context, group *groupv1.VolumeGroupSnapshot,
) (*groupv1.VolumeGroupSnapshotContent, error) {
	key := types.NamespacedName{Name: rules.GroupContentName(group)}
	content, err := g.groupContents.get(ctx, key)
	bound := group.Status != nil && group.Status.BoundVolumeGroupSnapshotContentName != nil
	if err != nil || content != nil || !bound && group.DeletionTimestamp == nil {
		return content, err
	}
	return kube.Get(ctx, g.Live, key, &groupv1.VolumeGroupSnapshotContent{})
}

// gatherSources reads the claims that the selector selects, their volumes and the class. The claims are
// read live, as upstream does (SN-G1): a group that is taken without a claim whose label the cache has not
// seen lacks that volume for ever.
func (g *GroupController) gatherSources(ctx context.Context, s *rules.Group) error {
	if s.Snapshot.Spec.Source.Selector == nil {
		return nil
	}
	selector, err := rules.Selector(s.Snapshot)
	if err != nil {
		return nil //nolint:nilerr // the decision refuses the selector with the reason
	}
	var claims corev1.PersistentVolumeClaimList
	options := []client.ListOption{
		client.InNamespace(s.Key.Namespace),
		client.MatchingLabelsSelector{Selector: selector},
	}
	if err := g.Live.List(ctx, &claims, options...); err != nil {
		return fmt.Errorf("read the claims of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	slices.SortFunc(
		claims.Items, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) },
	)
	for i := range claims.Items {
		source := rules.Source{Claim: &claims.Items[i]}
		if name := source.Claim.Spec.VolumeName; name != "" {
			if source.Volume, err = kube.Get(
				ctx, g.Live, types.NamespacedName{Name: name}, &corev1.PersistentVolume{},
			); err != nil {
				return err
			}
		}
		s.Sources = append(s.Sources, source)
	}
	return g.gatherGroupClass(ctx, s)
}

func (g *GroupController) gatherGroupClass(ctx context.Context, s *rules.Group) error {
	if name := s.Snapshot.Spec.VolumeGroupSnapshotClassName; name != nil {
		var err error
		s.Class, err = kube.Get(ctx, g.Cached, types.NamespacedName{Name: *name}, &groupv1.VolumeGroupSnapshotClass{})
		return err
	}
	var all groupv1.VolumeGroupSnapshotClassList
	if err := g.Cached.List(ctx, &all); err != nil {
		return fmt.Errorf("read VolumeGroupSnapshotClasses: %w", err)
	}
	for i := range all.Items {
		if rules.GroupIsDefaultClass(&all.Items[i]) {
			s.Defaults = append(s.Defaults, all.Items[i])
		}
	}
	return nil
}

// gatherMembers reads the objects of each snapshot that the content lists.
func (g *GroupController) gatherMembers(ctx context.Context, s *rules.Group) error {
	if s.Content.Status == nil {
		return nil
	}
	for _, info := range s.Content.Status.VolumeSnapshotInfoList {
		m := rules.Member{Info: info}
		snapshot, content := rules.MemberNames(s.Snapshot.UID, info.VolumeHandle)
		var err error
		key := types.NamespacedName{Namespace: s.Key.Namespace, Name: snapshot}
		if m.Snapshot, err = g.snapshots.get(ctx, key); err != nil {
			return err
		}
		key = types.NamespacedName{Name: content}
		if m.Content, err = g.contents.get(ctx, key); err != nil {
			return err
		}
		if m.Snapshot == nil || m.Content == nil {
			var volumes corev1.PersistentVolumeList
			of := client.MatchingFields{indexHandle: handleKey(s.Content.Spec.Driver, info.VolumeHandle)}
			if err := g.Cached.List(ctx, &volumes, of); err != nil {
				return fmt.Errorf("read the volumes with the handle %q: %w", info.VolumeHandle, err)
			}
			for i := range volumes.Items {
				m.Volumes = append(m.Volumes, &volumes.Items[i])
			}
		}
		s.Members = append(s.Members, m)
	}
	return nil
}

// gatherOwned reads the members of a group that is being deleted, and what is restored from them.
func (g *GroupController) gatherOwned(ctx context.Context, s *rules.Group) error {
	var all snapshotv1.VolumeSnapshotList
	if err := g.Cached.List(
		ctx, &all, client.InNamespace(s.Key.Namespace), client.MatchingFields{indexGroup: s.Key.Name},
	); err != nil {
		return fmt.Errorf("read the members of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	for i := range all.Items {
		restoring, err := Restoring(ctx, g.Cached, client.ObjectKeyFromObject(&all.Items[i]))
		if err != nil {
			return err
		}
		s.Restoring = append(s.Restoring, restoring...)
		if all.Items[i].DeletionTimestamp == nil {
			s.Owned = append(s.Owned, all.Items[i].Name)
		}
	}
	return nil
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
// its uid, the status of the content, the status of the VolumeSnapshot. After a crash the steps that
// were taken are found again, since the names follow from the group and the volume.
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
