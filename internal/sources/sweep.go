package sources

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// fromSweep enqueues the VolumeSnapshots with the finalizer that a previous process left, at the start
// and then at intervals. There is no watch: upstream's role need not have one, and the
// snapshots that this process protects are known.
func (c *Controller) fromSweep(ctx context.Context, q queue) error {
	go func() {
		for {
			wait := c.Sweep
			if !c.sweep(ctx, q) {
				wait = sweepAgain
			}
			if wait == 0 {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-c.Clock.After(wait):
			}
		}
	}()
	return nil
}

// sweepAgain is after how long VolumeSnapshots are listed again when the API server did not answer:
// until they are, this process does not know what a previous one protected.
const sweepAgain = 10 * time.Second

// sweep reports whether the API server has answered: with a list, or that there is none for us.
func (c *Controller) sweep(ctx context.Context, q queue) (answered bool) {
	newPage := func() *snapshotv1.VolumeSnapshotList { return &snapshotv1.VolumeSnapshotList{} }
	for page, err := range kube.Pages(ctx, c.Live, newPage) {
		switch {
		case kube.IsUnserved(err) || ctx.Err() != nil:
			return true
		case err != nil:
			logr.FromContextOrDiscard(ctx).V(
				sweepVerbosity(err),
			).Info("cannot list VolumeSnapshots; a finalizer that a previous process left stays",
				"problem", err.Error())
			return apierrors.IsForbidden(err)
		}
		for i := range page.Items {
			ref := snapshotRef(&page.Items[i])
			if source.IsProtected(&page.Items[i], ref) {
				c.know(ref)
				q.Add(ref)
			}
		}
	}
	return true
}

// sweepVerbosity is high for the permission that upstream's role need not have (RB-5).
func sweepVerbosity(err error) int {
	if apierrors.IsForbidden(err) {
		return 3
	}
	return 0
}

func snapshotRef(vs *snapshotv1.VolumeSnapshot) source.Ref {
	return source.Ref{
		Group: names.SnapshotGroup, Kind: source.KindSnapshot,
		NamespacedName: client.ObjectKeyFromObject(vs),
	}
}

// tellUnprotected logs that a snapshot is restored without the finalizer.
func (c *Controller) tellUnprotected(ctx context.Context, ref source.Ref) {
	logr.FromContextOrDiscard(ctx).V(3).Info("may not update VolumeSnapshots, so the snapshot is restored without a "+
		"finalizer",
		telemetry.KeySource, ref.String())
}
