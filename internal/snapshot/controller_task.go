package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key types.NamespacedName) (rules.Snapshot, error) {
	return Gather(ctx, kube.Readers{Cached: c.Cached, Live: c.Live}, key, Memory{
		Settings: c.Mode, Snapshot: c.snapshots.get, Content: c.contents.get, Claim: c.claims.get, Group: c.groupState,
	})
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s rules.Snapshot, now time.Time) rules.Verdict {
	return rules.DecideSnapshot(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(key types.NamespacedName, s rules.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeySnapshot, key.String()}}
	if s.Snapshot != nil {
		about.Object = s.Snapshot
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s rules.Snapshot, action rules.Action) (rules.Verdict, error) {
	switch a := action.(type) {
	case rules.PrepareSnapshot:
		return nil, c.snapshots.changeNewest(ctx, s.Snapshot, func(vs *snapshotv1.VolumeSnapshot) {
			addFinalizers(vs, a.Finalizers...)
			if a.Class != "" {
				vs.Spec.VolumeSnapshotClassName = new(a.Class)
			}
		})
	case rules.ReleaseSnapshot:
		return nil, client.IgnoreNotFound(c.snapshots.changeNewest(ctx, s.Snapshot,
			func(vs *snapshotv1.VolumeSnapshot) { removeFinalizers(vs, a.Finalizers...) }))
	case rules.WriteStatus:
		return nil, c.snapshots.writeStatus(
			ctx, s.Snapshot, func(vs *snapshotv1.VolumeSnapshot) { vs.Status = a.Status },
		)
	case rules.ProtectClaim:
		return nil, c.updateClaim(ctx, s, func(claim *corev1.PersistentVolumeClaim) {
			addFinalizers(claim,
				names.FinalizerSnapshotClaim)
		})
	case rules.ReleaseClaim:
		return nil, client.IgnoreNotFound(c.updateClaim(ctx, s, func(claim *corev1.PersistentVolumeClaim) {
			removeFinalizers(claim, names.FinalizerSnapshotClaim)
		}))
	case rules.CreateContent:
		return nil, c.contents.create(ctx, a.Content)
	case rules.BindContent:
		return nil, c.contents.change(ctx, s.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			content.Spec.VolumeSnapshotRef.UID = s.Snapshot.UID
			if a.Class != "" {
				content.Spec.VolumeSnapshotClassName = new(a.Class)
			}
		})
	case rules.ProtectContent:
		return nil, c.contents.change(ctx, a.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			addFinalizers(content, names.FinalizerSnapshotContent)
		})
	case rules.MarkDeleting:
		marked, err := c.contents.annotated(ctx, s.Content, names.AnnSnapshotBeingDeleted, "yes")
		if err != nil {
			return nil, err
		}
		return rules.AfterMark(s, marked), nil
	case rules.DeleteContent:
		return nil, c.contents.delete(ctx, s.Content)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// updateClaim replaces the claim, for which alone there is permission (SN-R1).
func (c *Controller) updateClaim(
	ctx context.Context, s rules.Snapshot, change func(*corev1.PersistentVolumeClaim),
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
