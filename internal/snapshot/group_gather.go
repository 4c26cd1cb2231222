package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// GroupMemory is the state of this process about VolumeGroupSnapshots, beyond the API objects. Each
// function may be nil.
type GroupMemory struct {
	Settings     rules.GroupSettings
	Group        Newest[*groupv1.VolumeGroupSnapshot]
	GroupContent Newest[*groupv1.VolumeGroupSnapshotContent]
	Snapshot     Newest[*snapshotv1.VolumeSnapshot]
	Content      Newest[*snapshotv1.VolumeSnapshotContent]
}

// groupGather reads around one VolumeGroupSnapshot.
type groupGather struct {
	from   kube.Readers
	memory GroupMemory
}

// GatherGroup gathers the inputs of the decision about a VolumeGroupSnapshot for the
// snapshot-controller.
func GatherGroup(
	ctx context.Context, from kube.Readers, key types.NamespacedName, m GroupMemory,
) (rules.Group, error) {
	s, g := rules.Group{GroupSettings: m.Settings, Key: key}, &groupGather{from, m}
	var err error
	if s.Snapshot, err = newest(ctx, from.Cached, m.Group, &groupv1.VolumeGroupSnapshot{}, key); err != nil {
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
func (g *groupGather) gatherUnprotected(ctx context.Context, s *rules.Group) error {
	var all groupv1.VolumeGroupSnapshotContentList
	if err := g.from.Cached.List(ctx, &all, client.MatchingFields{indexGroupRef: s.Key.String()}); err != nil {
		return fmt.Errorf("read the contents of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	for i := range all.Items {
		one, err := g.content(ctx, client.ObjectKeyFromObject(&all.Items[i]))
		if err != nil {
			return err
		}
		if one != nil && rules.GroupLacksFinalizer(one) {
			s.Unprotected = append(s.Unprotected, one)
		}
	}
	return nil
}

func (g *groupGather) content(
	ctx context.Context, key types.NamespacedName,
) (*groupv1.VolumeGroupSnapshotContent, error) {
	return newest(ctx, g.from.Cached, g.memory.GroupContent, &groupv1.VolumeGroupSnapshotContent{}, key)
}

// groupContent returns the content of a group. What follows from its absence must not follow from a
// stale cache: the API server is asked.
func (g *groupGather) groupContent(
	ctx context.Context, group *groupv1.VolumeGroupSnapshot,
) (*groupv1.VolumeGroupSnapshotContent, error) {
	key := types.NamespacedName{Name: rules.GroupContentName(group)}
	content, err := g.content(ctx, key)
	bound := group.Status != nil && group.Status.BoundVolumeGroupSnapshotContentName != nil
	if err != nil || content != nil || !bound && group.DeletionTimestamp == nil {
		return content, err
	}
	return kube.Get(ctx, g.from.Live, key, &groupv1.VolumeGroupSnapshotContent{})
}

// gatherSources reads the claims that the selector selects, their volumes and the class. The claims
// are read live, as upstream does (SN-G1): a group that is taken without a claim whose label the
// cache has not seen lacks that volume for ever.
func (g *groupGather) gatherSources(ctx context.Context, s *rules.Group) error {
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
	if err := g.from.Live.List(ctx, &claims, options...); err != nil {
		return fmt.Errorf("read the claims of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	slices.SortFunc(
		claims.Items, func(a, b corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) },
	)
	for i := range claims.Items {
		source := rules.Source{Claim: &claims.Items[i]}
		if name := source.Claim.Spec.VolumeName; name != "" {
			if source.Volume, err = kube.Get(
				ctx, g.from.Live, types.NamespacedName{Name: name}, &corev1.PersistentVolume{},
			); err != nil {
				return err
			}
		}
		s.Sources = append(s.Sources, source)
	}
	return g.gatherGroupClass(ctx, s)
}

func (g *groupGather) gatherGroupClass(ctx context.Context, s *rules.Group) error {
	if name := s.Snapshot.Spec.VolumeGroupSnapshotClassName; name != nil {
		var err error
		s.Class, err = kube.Get(
			ctx, g.from.Cached, types.NamespacedName{Name: *name}, &groupv1.VolumeGroupSnapshotClass{},
		)
		return err
	}
	var all groupv1.VolumeGroupSnapshotClassList
	if err := g.from.Cached.List(ctx, &all); err != nil {
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
func (g *groupGather) gatherMembers(ctx context.Context, s *rules.Group) error {
	if s.Content.Status == nil {
		return nil
	}
	for _, info := range s.Content.Status.VolumeSnapshotInfoList {
		m := rules.Member{Info: info}
		snapshot, content := rules.MemberNames(s.Snapshot.UID, info.VolumeHandle)
		var err error
		key := types.NamespacedName{Namespace: s.Key.Namespace, Name: snapshot}
		m.Snapshot, err = newest(ctx, g.from.Cached, g.memory.Snapshot, &snapshotv1.VolumeSnapshot{}, key)
		if err != nil {
			return err
		}
		key = types.NamespacedName{Name: content}
		m.Content, err = newest(ctx, g.from.Cached, g.memory.Content, &snapshotv1.VolumeSnapshotContent{}, key)
		if err != nil {
			return err
		}
		if m.Snapshot == nil || m.Content == nil {
			var volumes corev1.PersistentVolumeList
			of := client.MatchingFields{indexHandle: handleKey(s.Content.Spec.Driver, info.VolumeHandle)}
			if err := g.from.Cached.List(ctx, &volumes, of); err != nil {
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
func (g *groupGather) gatherOwned(ctx context.Context, s *rules.Group) error {
	var all snapshotv1.VolumeSnapshotList
	if err := g.from.Cached.List(
		ctx, &all, client.InNamespace(s.Key.Namespace), client.MatchingFields{indexGroup: s.Key.Name},
	); err != nil {
		return fmt.Errorf("read the members of VolumeGroupSnapshot %s: %w", s.Key, err)
	}
	for i := range all.Items {
		restoring, err := Restoring(ctx, g.from.Cached, client.ObjectKeyFromObject(&all.Items[i]))
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

// GatherGroupContent gathers the inputs of the decision about a VolumeGroupSnapshotContent for its
// driver's csi-snapshotter.
func GatherGroupContent(
	ctx context.Context, from client.Reader, content *groupv1.VolumeGroupSnapshotContent, o rules.GroupContentSettings,
) (s rules.Content, err error) {
	s.GroupContentSettings, s.Content = o, content
	if class := ptr.Deref(content.Spec.VolumeGroupSnapshotClassName, ""); class != "" {
		s.Class, err = kube.Get(ctx, from, types.NamespacedName{Name: class}, &groupv1.VolumeGroupSnapshotClass{})
	}
	return s, err
}
