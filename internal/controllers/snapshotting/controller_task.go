package snapshotting

import (
	"context"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key types.NamespacedName) (core.Snapshot, error) {
	s := core.Snapshot{Settings: c.Mode, Key: key}
	var err error
	if s.Unprotected, err = c.unprotected(ctx, key); err != nil {
		return s, err
	}
	if s.Snapshot, err = c.snapshots.get(ctx, key); err != nil || s.Snapshot == nil {
		return s, err
	}
	if s.Content, err = c.content(ctx, s.Snapshot); err != nil {
		return s, err
	}
	if s.Group, err = c.groupState(ctx, s.Snapshot); err != nil {
		return s, err
	}
	if err := c.gatherClaim(ctx, &s); err != nil {
		return s, err
	}
	if s.Snapshot.DeletionTimestamp != nil {
		s.Restoring, err = c.restoring(ctx, key)
		return s, err
	}
	if s.Content == nil {
		err = c.gatherClass(ctx, &s)
	}
	return s, err
}

// content returns the content of a VolumeSnapshot. What follows from its absence, that the snapshot
// is lost or that its finalizers may go, must not follow from a stale cache: the API server is
// asked.
func (c *Controller) content(
	ctx context.Context,
	vs *snapshotv1.VolumeSnapshot,
) (*snapshotv1.VolumeSnapshotContent, error) {
	if core.IsReleased(vs) {
		return nil, nil //nolint:nilnil // nothing is decided by it any more
	}
	key := types.NamespacedName{Name: core.ContentName(vs)}
	content, err := c.contents.get(ctx, key)
	bound := vs.Status != nil && vs.Status.BoundVolumeSnapshotContentName != nil
	if err != nil || content != nil || !bound && vs.DeletionTimestamp == nil {
		return content, err
	}
	return kube.Get(ctx, c.Live, key, &snapshotv1.VolumeSnapshotContent{})
}

// unprotected returns the contents that refer to a VolumeSnapshot with a uid and lack their
// finalizer (SN-V3).
func (c *Controller) unprotected(
	ctx context.Context,
	key types.NamespacedName,
) ([]*snapshotv1.VolumeSnapshotContent, error) {
	var all snapshotv1.VolumeSnapshotContentList
	if err := c.Cached.List(ctx, &all, client.MatchingFields{indexRef: key.String()}); err != nil {
		return nil, fmt.Errorf("read the contents of VolumeSnapshot %s: %w", key, err)
	}
	var found []*snapshotv1.VolumeSnapshotContent
	for i := range all.Items {
		one, err := c.contents.get(ctx, client.ObjectKeyFromObject(&all.Items[i]))
		if err != nil {
			return nil, err
		}
		if one != nil && one.Spec.VolumeSnapshotRef.UID != "" && one.DeletionTimestamp == nil &&
			!slices.Contains(one.Finalizers, names.FinalizerSnapshotContent) {
			found = append(found, one)
		}
	}
	return found, nil
}

// gatherClaim reads the source and the other snapshots that need it, and the volume while there is
// no content (SN-W7).
func (c *Controller) gatherClaim(ctx context.Context, s *core.Snapshot) error {
	name := core.SourceClaim(s.Snapshot)
	if name == "" {
		return nil
	}
	var err error
	key := types.NamespacedName{Namespace: s.Key.Namespace, Name: name}
	if s.Claim, err = c.claims.get(ctx, key); err != nil || s.Claim == nil {
		return err
	}
	if s.Content == nil && s.Claim.Spec.VolumeName != "" && s.Snapshot.DeletionTimestamp == nil {
		if err := c.gatherVolume(ctx, s); err != nil {
			return err
		}
	}
	if !slices.Contains(s.Claim.Finalizers, names.FinalizerSnapshotClaim) {
		return nil
	}
	var all snapshotv1.VolumeSnapshotList
	if err := c.Cached.List(ctx, &all, client.InNamespace(key.Namespace),
		client.MatchingFields{indexSource: name}); err != nil {
		return fmt.Errorf("read the VolumeSnapshots of claim %s: %w", key, err)
	}
	for i := range all.Items {
		if other := &all.Items[i]; other.Name != s.Key.Name && core.NeedsClaim(other) {
			s.Others = append(s.Others, other.Name)
		}
	}
	return nil
}

// gatherVolume reads the volume of the source, and in distributed mode the nodes that it may be on.
func (c *Controller) gatherVolume(ctx context.Context, s *core.Snapshot) (err error) {
	name := types.NamespacedName{Name: s.Claim.Spec.VolumeName}
	if s.Volume, err = kube.Get(ctx, c.Live, name, &corev1.PersistentVolume{}); err != nil || s.Volume == nil {
		return err
	}
	if !c.Mode.Distributed || s.Volume.Spec.NodeAffinity == nil {
		return nil
	}
	var nodes corev1.NodeList
	if err := c.Cached.List(ctx, &nodes); err != nil {
		return fmt.Errorf("read the nodes of volume %q: %w", s.Volume.Name, err)
	}
	s.Nodes = nodes.Items
	return nil
}

func (c *Controller) gatherClass(ctx context.Context, s *core.Snapshot) error {
	if name := s.Snapshot.Spec.VolumeSnapshotClassName; name != nil {
		var err error
		s.Class, err = kube.Get(ctx, c.Cached, types.NamespacedName{Name: *name}, &snapshotv1.VolumeSnapshotClass{})
		return err
	}
	var all snapshotv1.VolumeSnapshotClassList
	if err := c.Cached.List(ctx, &all); err != nil {
		return fmt.Errorf("read VolumeSnapshotClasses: %w", err)
	}
	for i := range all.Items {
		if core.IsDefaultClass(&all.Items[i]) {
			s.Defaults = append(s.Defaults, all.Items[i])
		}
	}
	return nil
}

func (c *Controller) restoring(ctx context.Context, key types.NamespacedName) ([]string, error) {
	var all corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &all, client.MatchingFields{indexRestored: key.String()}); err != nil {
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

// Decide implements reconcile.Task.
func (c *Controller) Decide(s core.Snapshot, now time.Time) core.Verdict {
	return core.DecideSnapshot(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(key types.NamespacedName, s core.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeySnapshot, key.String()}}
	if s.Snapshot != nil {
		about.Object = s.Snapshot
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s core.Snapshot, action core.Action) (core.Verdict, error) {
	switch a := action.(type) {
	case core.PrepareSnapshot:
		return nil, c.snapshots.changeNewest(ctx, s.Snapshot, func(vs *snapshotv1.VolumeSnapshot) {
			addFinalizers(vs, a.Finalizers...)
			if a.Class != "" {
				vs.Spec.VolumeSnapshotClassName = new(a.Class)
			}
		})
	case core.ReleaseSnapshot:
		return nil, client.IgnoreNotFound(c.snapshots.changeNewest(ctx, s.Snapshot,
			func(vs *snapshotv1.VolumeSnapshot) { removeFinalizers(vs, a.Finalizers...) }))
	case core.WriteStatus:
		return nil, c.snapshots.writeStatus(ctx, s.Snapshot, func(vs *snapshotv1.VolumeSnapshot) { vs.Status = a.Status })
	case core.ProtectClaim:
		return nil, c.updateClaim(ctx, s, func(claim *corev1.PersistentVolumeClaim) {
			addFinalizers(claim,
				names.FinalizerSnapshotClaim)
		})
	case core.ReleaseClaim:
		return nil, client.IgnoreNotFound(c.updateClaim(ctx, s, func(claim *corev1.PersistentVolumeClaim) {
			removeFinalizers(claim, names.FinalizerSnapshotClaim)
		}))
	case core.CreateContent:
		return nil, c.contents.create(ctx, a.Content)
	case core.BindContent:
		return nil, c.contents.change(ctx, s.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			content.Spec.VolumeSnapshotRef.UID = s.Snapshot.UID
			if a.Class != "" {
				content.Spec.VolumeSnapshotClassName = new(a.Class)
			}
		})
	case core.ProtectContent:
		return nil, c.contents.change(ctx, a.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			addFinalizers(content, names.FinalizerSnapshotContent)
		})
	case core.MarkDeleting:
		return nil, c.contents.annotate(ctx, s.Content, names.AnnSnapshotBeingDeleted, new("yes"))
	case core.DeleteContent:
		return nil, c.contents.delete(ctx, s.Content)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// updateClaim replaces the claim, for which alone there is permission (SN-R1).
func (c *Controller) updateClaim(
	ctx context.Context,
	s core.Snapshot,
	change func(*corev1.PersistentVolumeClaim),
) error {
	c.claimWrites.Lock()
	defer c.claimWrites.Unlock()
	claim, err := c.claims.newest(ctx, s.Claim)
	if err != nil {
		return err
	}
	changed := claim.DeepCopy()
	if change(changed); slices.Equal(changed.Finalizers, claim.Finalizers) {
		return nil // another snapshot of the claim was quicker
	}
	return c.claims.wrote(changed, c.Writer.Update(ctx, changed))
}
