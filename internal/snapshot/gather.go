package snapshot

import (
	"context"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

const (
	// IndexSnapshotSource finds VolumeSnapshots by the claim that they are taken of.
	IndexSnapshotSource = "snapshotSourceClaim"
	// IndexContentOfSnapshot finds contents by the VolumeSnapshot that they refer to.
	IndexContentOfSnapshot = "snapshotRef"
	// IndexRestoredClaim finds claims by the VolumeSnapshot that they are restored from.
	IndexRestoredClaim = "restoredSnapshot"
)

// Indexes are those that [Gather] reads by.
func Indexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(IndexSnapshotSource, func(vs *snapshotv1.VolumeSnapshot) []string {
			if source := rules.SourceClaim(vs); source != "" {
				return []string{source}
			}
			return nil
		}),
		kube.IndexBy(IndexContentOfSnapshot, func(content *snapshotv1.VolumeSnapshotContent) []string {
			ref := content.Spec.VolumeSnapshotRef
			return []string{types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()}
		}),
		kube.IndexBy(IndexRestoredClaim, func(claim *corev1.PersistentVolumeClaim) []string {
			if from, is := rules.RestoredFrom(claim); is {
				return []string{from.String()}
			}
			return nil
		}),
	}
}

// Newest reads an object as new as this process's last write to it.
type Newest[T client.Object] func(ctx context.Context, key types.NamespacedName) (T, error)

// newest reads as memory does; nil for as the reader has the object.
func newest[T client.Object](
	ctx context.Context, from client.Reader, memory Newest[T], into T, key types.NamespacedName,
) (T, error) {
	if memory != nil {
		return memory(ctx, key)
	}
	return kube.Get(ctx, from, key, into)
}

// Memory is the state of this process about VolumeSnapshots, beyond the API objects. Each
// function may be nil.
type Memory struct {
	Settings rules.Settings
	Snapshot Newest[*snapshotv1.VolumeSnapshot]
	Content  Newest[*snapshotv1.VolumeSnapshotContent]
	Claim    Newest[*corev1.PersistentVolumeClaim]
	// Group says how it stands with the group that a VolumeSnapshot is a member of; nil for a process
	// that does not follow groups.
	Group func(context.Context, *snapshotv1.VolumeSnapshot) (rules.GroupState, error)
}

// snapshotGather reads around one VolumeSnapshot.
type snapshotGather struct {
	from   kube.Readers
	memory Memory
}

// Gather gathers the inputs of the decision about a VolumeSnapshot for the snapshot-controller.
func Gather(
	ctx context.Context, from kube.Readers, key types.NamespacedName, m Memory,
) (rules.Snapshot, error) {
	s, g := rules.Snapshot{Settings: m.Settings, Key: key}, &snapshotGather{from, m}
	var err error
	if s.Unprotected, err = g.unprotected(ctx, key); err != nil {
		return s, err
	}
	s.Snapshot, err = newest(ctx, from.Cached, m.Snapshot, &snapshotv1.VolumeSnapshot{}, key)
	if err != nil || s.Snapshot == nil {
		return s, err
	}
	if s.Content, err = g.content(ctx, s.Snapshot); err != nil {
		return s, err
	}
	if m.Group != nil {
		if s.Group, err = m.Group(ctx, s.Snapshot); err != nil {
			return s, err
		}
	}
	if err := g.readClaim(ctx, &s); err != nil {
		return s, err
	}
	if s.Snapshot.DeletionTimestamp != nil {
		s.Restoring, err = Restoring(ctx, from.Cached, key)
		return s, err
	}
	if s.Content == nil {
		err = g.readClass(ctx, &s)
	}
	return s, err
}

// content returns the content of a VolumeSnapshot. What follows from its absence, that the snapshot
// is lost or that its finalizers may go, must not follow from a stale cache: the API server is
// asked.
func (g *snapshotGather) content(
	ctx context.Context, vs *snapshotv1.VolumeSnapshot,
) (*snapshotv1.VolumeSnapshotContent, error) {
	if rules.IsReleased(vs) {
		return nil, nil //nolint:nilnil // nothing is decided by it any more
	}
	key := types.NamespacedName{Name: rules.ContentName(vs)}
	content, err := newest(ctx, g.from.Cached, g.memory.Content, &snapshotv1.VolumeSnapshotContent{}, key)
	bound := vs.Status != nil && vs.Status.BoundVolumeSnapshotContentName != nil
	if err != nil || content != nil || !bound && vs.DeletionTimestamp == nil {
		return content, err
	}
	return kube.Get(ctx, g.from.Live, key, &snapshotv1.VolumeSnapshotContent{})
}

// unprotected returns the contents that refer to a VolumeSnapshot and lack their finalizer (SN-V3).
func (g *snapshotGather) unprotected(
	ctx context.Context, key types.NamespacedName,
) ([]*snapshotv1.VolumeSnapshotContent, error) {
	var all snapshotv1.VolumeSnapshotContentList
	if err := g.from.Cached.List(ctx, &all, client.MatchingFields{IndexContentOfSnapshot: key.String()}); err != nil {
		return nil, fmt.Errorf("read the contents of VolumeSnapshot %s: %w", key, err)
	}
	var found []*snapshotv1.VolumeSnapshotContent
	for i := range all.Items {
		one, err := newest(ctx, g.from.Cached, g.memory.Content, &snapshotv1.VolumeSnapshotContent{},
			client.ObjectKeyFromObject(&all.Items[i]))
		if err != nil {
			return nil, err
		}
		if one != nil && rules.LacksFinalizer(one) {
			found = append(found, one)
		}
	}
	return found, nil
}

// readClaim reads the source and the other snapshots that need it, and the volume while there is
// no content (SN-W7).
func (g *snapshotGather) readClaim(ctx context.Context, s *rules.Snapshot) error {
	name := rules.SourceClaim(s.Snapshot)
	if name == "" {
		return nil
	}
	var err error
	key := types.NamespacedName{Namespace: s.Key.Namespace, Name: name}
	s.Claim, err = newest(ctx, g.from.Cached, g.memory.Claim, &corev1.PersistentVolumeClaim{}, key)
	if err != nil || s.Claim == nil {
		return err
	}
	if s.Content == nil && s.Claim.Spec.VolumeName != "" && s.Snapshot.DeletionTimestamp == nil {
		if err := g.readVolume(ctx, s); err != nil {
			return err
		}
	}
	if !slices.Contains(s.Claim.Finalizers, names.FinalizerSnapshotClaim) {
		return nil
	}
	var all snapshotv1.VolumeSnapshotList
	if err := g.from.Cached.List(ctx, &all, client.InNamespace(key.Namespace),
		client.MatchingFields{IndexSnapshotSource: name}); err != nil {
		return fmt.Errorf("read the VolumeSnapshots of claim %s: %w", key, err)
	}
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != s.Key.Name && rules.NeedsClaim(other) {
			s.Others = append(s.Others, other.Name)
		}
	}
	return nil
}

// readVolume reads the volume of the source, and in distributed mode the nodes that it may be on.
func (g *snapshotGather) readVolume(ctx context.Context, s *rules.Snapshot) (err error) {
	name := types.NamespacedName{Name: s.Claim.Spec.VolumeName}
	if s.Volume, err = kube.Get(ctx, g.from.Live, name, &corev1.PersistentVolume{}); err != nil || s.Volume == nil {
		return err
	}
	if !g.memory.Settings.Distributed || s.Volume.Spec.NodeAffinity == nil {
		return nil
	}
	var nodes corev1.NodeList
	if err := g.from.Cached.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read the nodes of volume %q: %w", s.Volume.Name, err)
	}
	s.Nodes = nodes.Items
	return nil
}

func (g *snapshotGather) readClass(ctx context.Context, s *rules.Snapshot) error {
	if name := s.Snapshot.Spec.VolumeSnapshotClassName; name != nil {
		var err error
		s.Class, err = kube.Get(
			ctx, g.from.Cached, types.NamespacedName{Name: *name}, &snapshotv1.VolumeSnapshotClass{},
		)
		return err
	}
	var all snapshotv1.VolumeSnapshotClassList
	if err := g.from.Cached.List(ctx, &all); err != nil {
		return fmt.Errorf("read VolumeSnapshotClasses: %w", err)
	}
	for i := range all.Items {
		if rules.IsDefaultClass(&all.Items[i]) {
			s.Defaults = append(s.Defaults, all.Items[i])
		}
	}
	return nil
}

// Restoring returns the claims without a volume whose source is the VolumeSnapshot.
func Restoring(ctx context.Context, from client.Reader, key types.NamespacedName) ([]string, error) {
	var all corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &all, client.MatchingFields{IndexRestoredClaim: key.String()}); err != nil {
		return nil, fmt.Errorf("read the claims that are restored from %s: %w", key, err)
	}
	var found []string
	for i := range all.Items {
		if all.Items[i].Status.Phase == corev1.ClaimPending {
			found = append(found, client.ObjectKeyFromObject(&all.Items[i]).String())
		}
	}
	return found, nil
}

// GatherContent gathers the inputs of the decision about a VolumeSnapshotContent for its driver's
// csi-snapshotter.
func GatherContent(
	ctx context.Context, from client.Reader, content *snapshotv1.VolumeSnapshotContent, o rules.ContentSettings,
) (s rules.ContentSnapshot, err error) {
	s.ContentSettings, s.Content = o, content
	if class := ptr.Deref(content.Spec.VolumeSnapshotClassName, ""); class != "" {
		s.Class, err = kube.Get(ctx, from, types.NamespacedName{Name: class}, &snapshotv1.VolumeSnapshotClass{})
	}
	return s, err
}
