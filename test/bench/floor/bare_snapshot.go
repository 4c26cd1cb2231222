package floor

import (
	"context"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// snapshot is FL-18. Together, the source and the call need no marks in the API server.
func (b *bare) snapshot(ctx context.Context, it *item) error {
	s, claim := it.snapshot, it.pair.claim
	content := newContent(s, it.pair.pv)
	it.content = content
	before := slices.Clone(claim.Finalizers)
	during := append(slices.Clone(before), names.FinalizerSnapshotClaim)
	err := b.all(b.finalize(ctx, s, names.FinalizerSnapshotSource, names.FinalizerSnapshotBound))
	if err == nil {
		err = b.alone(b.finalize(ctx, claim, during...))
	}
	if err == nil {
		err = b.all(b.create(ctx, content))
	}
	if err == nil {
		err = b.alone(b.annotate(ctx, content, names.AnnSnapshotBeingCreated, "yes"))
	}
	if err != nil {
		return err
	}
	now := time.Now()
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{
		SnapshotHandle: new("of-" + content.Name), ReadyToUse: new(true), CreationTime: new(now.UnixNano()),
		RestoreSize: new(int64(1 << 30)),
	}
	if err := b.all(b.status(ctx, content)); err != nil {
		return err
	}
	if err := b.alone(b.annotate(ctx, content, names.AnnSnapshotBeingCreated, nil)); err != nil {
		return err
	}
	s.Status = &snapshotv1.VolumeSnapshotStatus{
		BoundVolumeSnapshotContentName: &content.Name, ReadyToUse: new(true), CreationTime: new(metav1.NewTime(now)),
		RestoreSize: it.pair.pv.Spec.Capacity.Storage(),
	}
	if err := b.all(b.status(ctx, s)); err != nil {
		return err
	}
	return b.alone(b.finalize(ctx, claim, before...))
}

// newContent has its finalizer from the start (FL-34).
func newContent(s *snapshotv1.VolumeSnapshot, pv *corev1.PersistentVolume) *snapshotv1.VolumeSnapshotContent {
	return &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: "snapcontent-" + string(s.UID), Finalizers: []string{names.FinalizerSnapshotContent},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			VolumeSnapshotClassName: s.Spec.VolumeSnapshotClassName,
			SourceVolumeMode:        new(corev1.PersistentVolumeFilesystem),
			Source:                  snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &pv.Spec.CSI.VolumeHandle},
			VolumeSnapshotRef: corev1.ObjectReference{
				Kind: "VolumeSnapshot", APIVersion: snapshotv1.SchemeGroupVersion.String(),
				Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
			},
		},
	}
}

// deleteSnapshot is FL-19. The mark is for a csi-snapshotter that does not see the VolumeSnapshot.
func (b *bare) deleteSnapshot(ctx context.Context, it *item) error {
	if err := b.alone(b.annotate(ctx, it.content, names.AnnSnapshotBeingDeleted, "yes")); err != nil {
		return err
	}
	return b.all(b.delete(ctx, it.content), b.finalize(ctx, it.content), b.finalize(ctx, it.snapshot))
}
