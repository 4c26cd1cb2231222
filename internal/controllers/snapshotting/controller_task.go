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
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key types.NamespacedName) (core.Snapshot, error) {
	return world.Snapshot(ctx, world.Readers{Cached: c.Cached, Live: c.Live}, key, world.SnapshotMemory{
		Settings: c.Mode, Snapshot: c.snapshots.get, Content: c.contents.get, Claim: c.claims.get, Group: c.groupState,
	})
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
		marked, err := c.contents.annotated(ctx, s.Content, names.AnnSnapshotBeingDeleted, "yes")
		if err != nil {
			return nil, err
		}
		return core.AfterMark(s, marked), nil
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
