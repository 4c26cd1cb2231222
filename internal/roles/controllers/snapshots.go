package controllers

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/protection"
	"github.com/purser-csi/purser/internal/snapshot"
)

// protectSources has the protection of claims keep those of which a snapshot-controller in this process
// takes snapshots. Where the API server serves no snapshots there is nothing to keep.
func (p *Parts) protectSources(ctx context.Context, cfg *protection.Config) error {
	if p.Snapshots == nil {
		return nil
	}
	kind := snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot")
	if _, err := p.Manager.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		return nil
	}
	if err := kube.AddIndexes(ctx, p.Manager.GetFieldIndexer(), snapshot.SourceIndexes()...); err != nil {
		return err
	}
	cfg.Cached.Index(snapshot.SourceIndexes()...)
	cfg.Snapshots, cfg.SnapshotUsers = p.Snapshots, snapshot.SourceUsers
	return p.Manager.Add(handoff.ClaimProtection{
		Snapshots: p.Snapshots, Bound: drainTime / 2,
		Protect: func(ctx context.Context, claim handoff.SourceClaim) error {
			return protectSource(ctx, p.Writer, claim)
		},
	})
}

// protectSource adds the finalizer of the snapshot-controller. A claim that is being deleted can get none,
// and is kept by the protection of the next leader.
func protectSource(ctx context.Context, writer client.Writer, source handoff.SourceClaim) error {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = source.Namespace, source.Name
	err := writer.Patch(ctx, claim, kube.AddFinalizer(source.UID, names.FinalizerSnapshotClaim))
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) { // it is being deleted, or another one has its name
		return nil
	}
	return client.IgnoreNotFound(err)
}
