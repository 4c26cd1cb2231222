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
	"github.com/purser-csi/purser/internal/verdict"
)

const (
	// indexSnapshotSource finds VolumeSnapshots by the claim that they are taken of.
	indexSnapshotSource = "snapshotSourceClaim"
	// indexProtectedSource is indexSnapshotSource for the protection of claims.
	indexProtectedSource = "protectedSnapshotSource"
	// indexRef finds contents by the VolumeSnapshot or VolumeGroupSnapshot that they refer to.
	indexRef = "snapshotRef"
	// indexRestoredClaim finds claims by the VolumeSnapshot that they are restored from.
	indexRestoredClaim = "restoredSnapshot"
	// indexGroup finds VolumeSnapshots by the name of the group that they are members of.
	indexGroup = "snapshotGroup"
	// indexVolume finds volumes by driver and handle.
	indexVolume = "snapshotVolumeHandle"
	// indexHandle finds contents by the handle of their snapshot.
	indexHandle = "snapshotHandle"
)

// Indexes are those that [Gather] reads by.
func Indexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(indexSnapshotSource, func(vs *snapshotv1.VolumeSnapshot) []string {
			return unlessEmpty(rules.SourceClaim(vs))
		}),
		{Kind: &snapshotv1.VolumeSnapshotContent{}, Field: indexRef, Values: byRef},
		kube.IndexBy(indexRestoredClaim, func(claim *corev1.PersistentVolumeClaim) []string {
			if from, is := rules.RestoredFrom(claim); is {
				return []string{from.String()}
			}
			return nil
		}),
	}
}

// GroupIndexes are those that the controllers read groups and their members by, beside [Indexes].
func GroupIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(
			indexGroup, func(vs *snapshotv1.VolumeSnapshot) []string { return unlessEmpty(rules.GroupOf(vs)) },
		),
		kube.IndexBy(indexVolume, func(pv *corev1.PersistentVolume) []string {
			if pv.Spec.CSI == nil {
				return nil
			}
			return []string{volumeKey(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)}
		}),
		{Kind: &groupv1.VolumeGroupSnapshotContent{}, Field: indexRef, Values: byRef},
	}
}

// ContentIndexes are those that the sidecar reads by.
func ContentIndexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(indexHandle, func(c *snapshotv1.VolumeSnapshotContent) []string {
			return unlessEmpty(rules.Handle(c, c.Spec.Driver))
		}),
	}
}

func unlessEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func byRef(o client.Object) []string { return []string{refOf(o).String()} }

// refOf returns the key of the object that a content refers to.
func refOf(content client.Object) types.NamespacedName {
	ref := rules.RefOf(content)
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

func volumeKey(driver, handle string) string { return driver + "^" + handle }

// gatherState reads what the decisions about both kinds depend on.
func gatherState[O requests, C contents, L classes](
	ctx context.Context, from client.Reader, key types.NamespacedName, settings rules.Settings,
) (s rules.State[O, C, L], err error) {
	s.Settings, s.Key = settings, key
	if s.Referring, err = list[C](ctx, from, client.MatchingFields{indexRef: key.String()}); err != nil {
		return s, err
	}
	if s.Snapshot, err = get[O](ctx, from, key); err != nil || s.Snapshot == nil {
		return s, err
	}
	s.Content, err = get[C](ctx, from, types.NamespacedName{Name: rules.ContentName(s.Snapshot)})
	if err != nil || s.Content != nil || s.Snapshot.GetDeletionTimestamp() != nil {
		return s, err
	}
	if class := *rules.ClassNameOf(s.Snapshot); class != nil {
		s.Class, err = get[L](ctx, from, types.NamespacedName{Name: *class})
	} else {
		s.Classes, err = list[L](ctx, from)
	}
	return s, err
}

// Gather gathers the inputs of the decision about a VolumeSnapshot for the snapshot-controller.
func Gather(
	ctx context.Context, from client.Reader, key types.NamespacedName, settings rules.Settings,
) (rules.Snapshot, error) {
	s, err := gatherState[
		*snapshotv1.VolumeSnapshot, *snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass,
	](ctx, from, key, settings)
	if err != nil || s.Snapshot == nil {
		return s, err
	}
	if group := rules.GroupOf(s.Snapshot); group != "" && settings.Groups {
		name := types.NamespacedName{Namespace: key.Namespace, Name: group}
		if s.Group, err = get[*groupv1.VolumeGroupSnapshot](ctx, from, name); err != nil {
			return s, err
		}
	}
	if err := gatherClaim(ctx, from, &s); err != nil {
		return s, err
	}
	if s.Snapshot.DeletionTimestamp == nil {
		return s, gatherVolume(ctx, from, &s)
	}
	s.Restoring, err = restoring(ctx, from, key)
	return s, err
}

// gatherClaim reads the source and the other snapshots of it.
func gatherClaim(ctx context.Context, from client.Reader, s *rules.Snapshot) (err error) {
	name := rules.SourceClaim(s.Snapshot)
	if name == "" {
		return nil
	}
	key := types.NamespacedName{Namespace: s.Key.Namespace, Name: name}
	if s.Claim, err = get[*corev1.PersistentVolumeClaim](ctx, from, key); err != nil || s.Claim == nil {
		return err
	}
	s.Others, err = list[*snapshotv1.VolumeSnapshot](
		ctx, from, client.InNamespace(key.Namespace), client.MatchingFields{indexSnapshotSource: name},
	)
	s.Others = slices.DeleteFunc(s.Others, func(vs *snapshotv1.VolumeSnapshot) bool { return vs.Name == s.Key.Name })
	return err
}

// gatherVolume reads the volume of a source that a content is made for. The cache has volumes where the
// controller of groups or another role in the process needs them.
func gatherVolume(ctx context.Context, from client.Reader, s *rules.Snapshot) (err error) {
	if s.Content == nil && s.Claim != nil && s.Claim.Spec.VolumeName != "" && (s.Groups || s.Together != "") {
		s.Volume, err = get[*corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: s.Claim.Spec.VolumeName})
	}
	return err
}

// restoring returns the claims without a volume whose source is the VolumeSnapshot.
func restoring(ctx context.Context, from client.Reader, key types.NamespacedName) (names []string, err error) {
	claims, err := list[*corev1.PersistentVolumeClaim](
		ctx, from, client.MatchingFields{indexRestoredClaim: key.String()},
	)
	for _, claim := range claims {
		if claim.Spec.VolumeName == "" {
			names = append(names, client.ObjectKeyFromObject(claim).String())
		}
	}
	return names, err
}

// GatherGroup gathers the inputs of the decision about a VolumeGroupSnapshot.
func GatherGroup(
	ctx context.Context, from client.Reader, key types.NamespacedName, settings rules.Settings,
) (rules.Group, error) {
	s, err := gatherState[
		*groupv1.VolumeGroupSnapshot, *groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass,
	](ctx, from, key, settings)
	switch {
	case err != nil || s.Snapshot == nil:
		return s, err
	case s.Snapshot.DeletionTimestamp != nil:
		return s, gatherOwned(ctx, from, &s)
	case s.Content == nil || s.Content.Status == nil:
		return s, nil
	}
	for _, info := range s.Content.Status.VolumeSnapshotInfoList {
		m := rules.Member{Info: info}
		snapshot, content := rules.MemberNames(s.Snapshot.UID, info.VolumeHandle)
		name := types.NamespacedName{Namespace: key.Namespace, Name: snapshot}
		if m.Snapshot, err = get[*snapshotv1.VolumeSnapshot](ctx, from, name); err != nil {
			return s, err
		}
		name = types.NamespacedName{Name: content}
		if m.Content, err = get[*snapshotv1.VolumeSnapshotContent](ctx, from, name); err != nil {
			return s, err
		}
		of := client.MatchingFields{indexVolume: volumeKey(s.Content.Spec.Driver, info.VolumeHandle)}
		if m.Volumes, err = list[*corev1.PersistentVolume](ctx, from, of); err != nil {
			return s, err
		}
		s.Members = append(s.Members, m)
	}
	return s, nil
}

// gatherOwned reads the members of a group that is being deleted, and what is restored from them.
func gatherOwned(ctx context.Context, from client.Reader, s *rules.Group) error {
	members, err := list[*snapshotv1.VolumeSnapshot](
		ctx, from, client.InNamespace(s.Key.Namespace), client.MatchingFields{indexGroup: s.Key.Name},
	)
	if err != nil {
		return err
	}
	for _, member := range members {
		claims, err := restoring(ctx, from, client.ObjectKeyFromObject(member))
		if err != nil {
			return err
		}
		s.Restoring = append(s.Restoring, claims...)
		if member.DeletionTimestamp == nil {
			s.Owned = append(s.Owned, member.Name)
		}
	}
	return nil
}

// Read reads what a decision asks for from the API server, and nodes from the cache.
func Read[O requests, C contents, L classes](
	ctx context.Context, from kube.Readers, s rules.State[O, C, L], refs []verdict.Ref,
) (rules.State[O, C, L], error) {
	for _, ref := range refs {
		var err error
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		switch ref.What {
		case rules.ReadContent:
			s.Content, err = get[C](ctx, from.Live, key)
		case rules.ReadGroup:
			s.Group, err = get[*groupv1.VolumeGroupSnapshot](ctx, from.Live, key)
		case rules.ReadVolume:
			s.Volume, err = get[*corev1.PersistentVolume](ctx, from.Live, key)
		case rules.ReadClaim:
			s.Claim, err = get[*corev1.PersistentVolumeClaim](ctx, from.Live, key)
		case rules.ReadNodes:
			var nodes corev1.NodeList
			err = from.Cached.List(ctx, &nodes)
			s.Nodes = nodes.Items
		case rules.ReadSources:
			s.Sources, err = readSources(ctx, from.Live, any(s.Snapshot))
		}
		if err != nil {
			return s, err
		}
		s.Read = append(s.Read, ref.What)
	}
	return s, nil
}

// readSources reads the claims that the selector selects, and their volumes. The claims are read
// live, as upstream does (SN-G1): a group that is taken without a claim whose label the cache has not
// seen lacks that volume for ever.
func readSources(ctx context.Context, live client.Reader, object any) (all []rules.Source, err error) {
	group, _ := object.(*groupv1.VolumeGroupSnapshot)
	selector, err := rules.Selector(group)
	if err != nil {
		return nil, err
	}
	claims, err := list[*corev1.PersistentVolumeClaim](
		ctx, live, client.InNamespace(group.Namespace), client.MatchingLabelsSelector{Selector: selector},
	)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int { return strings.Compare(a.Name, b.Name) })
	for _, claim := range claims {
		source := rules.Source{Claim: claim}
		if name := claim.Spec.VolumeName; name != "" {
			source.Volume, err = get[*corev1.PersistentVolume](ctx, live, types.NamespacedName{Name: name})
			if err != nil {
				return nil, err
			}
		}
		all = append(all, source)
	}
	return all, nil
}

// gatherContent reads a content, and the class that it names.
func gatherContent[C contents, L classes](
	ctx context.Context, from client.Reader, content C, settings rules.ContentSettings,
) (s rules.ContentState[C, L], err error) {
	s.ContentSettings, s.Content = settings, content
	if class := ptr.Deref(*rules.ClassNameOf(content), ""); class != "" {
		s.Class, err = get[L](ctx, from, types.NamespacedName{Name: class})
	}
	return s, err
}

// GatherContent gathers the inputs of the decision about a VolumeSnapshotContent for its driver's
// csi-snapshotter, with all that it asks for.
func GatherContent(
	ctx context.Context, from client.Reader, content *snapshotv1.VolumeSnapshotContent, settings rules.ContentSettings,
) (rules.ContentSnapshot, error) {
	s, err := gatherContent[*snapshotv1.VolumeSnapshotContent, *snapshotv1.VolumeSnapshotClass](
		ctx, from, content, settings,
	)
	if err == nil && content.DeletionTimestamp != nil {
		s.Sharing, err = cachedSharing(ctx, from, content)
	}
	return s, err
}

// GatherGroupContent gathers the same for a VolumeGroupSnapshotContent.
func GatherGroupContent(
	ctx context.Context, from client.Reader, content *groupv1.VolumeGroupSnapshotContent,
	settings rules.ContentSettings,
) (rules.GroupContent, error) {
	s, err := gatherContent[*groupv1.VolumeGroupSnapshotContent, *groupv1.VolumeGroupSnapshotClass](
		ctx, from, content, settings,
	)
	if err == nil && content.DeletionTimestamp != nil {
		s.Sharing, err = groupLists{from}.live(ctx, content, "", false)
	}
	return s, err
}

// cachedSharing returns the other cached contents of the driver with the handle of a content.
func cachedSharing(
	ctx context.Context, from client.Reader, content *snapshotv1.VolumeSnapshotContent,
) (*rules.Sharing, error) {
	handle := rules.Handle(content, content.Spec.Driver)
	found, err := list[*snapshotv1.VolumeSnapshotContent](ctx, from, client.MatchingFields{indexHandle: handle})
	if err != nil {
		return nil, fmt.Errorf("read the contents with the snapshot %q: %w", handle, err)
	}
	return &rules.Sharing{Contents: slices.DeleteFunc(found, func(one *snapshotv1.VolumeSnapshotContent) bool {
		return one.UID == content.UID || one.Spec.Driver != content.Spec.Driver
	})}, nil
}
