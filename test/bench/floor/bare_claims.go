package floor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// doubleSize is that of an expanded claim.
var doubleSize = resource.MustParse("2Gi")

// provision is FL-10.
func (b *bare) provision(ctx context.Context, it *item) error {
	if err := b.request(ctx, &it.pair); err != nil {
		return err
	}
	return b.bind(ctx, &it.pair)
}

// restore is FL-21. Together, the VolumeSnapshot is kept in memory.
func (b *bare) restore(ctx context.Context, it *item) error {
	if err := b.request(ctx, &it.restored); err != nil {
		return err
	}
	before := []string{names.FinalizerSnapshotSource, names.FinalizerSnapshotBound}
	during := append(slices.Clone(before), names.FinalizerRestoreSource)
	if err := b.alone(b.finalize(ctx, it.snapshot, during...)); err != nil {
		return err
	}
	if err := b.bind(ctx, &it.restored); err != nil {
		return err
	}
	return b.alone(b.finalize(ctx, it.snapshot, before...))
}

// request is the write that asks another process for the volume of a claim, which is left out together.
func (b *bare) request(ctx context.Context, p *pair) error {
	if b.form == separate {
		metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnStorageProvisioner, driverName)
		metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnBetaStorageProvisioner, driverName)
	}
	return b.alone(b.update(ctx, p.claim))
}

// bind is FL-10 after the request.
func (b *bare) bind(ctx context.Context, p *pair) error {
	p.pv = b.newVolume(p.claim)
	if err := b.all(b.create(ctx, p.pv)); err != nil {
		return err
	}
	p.pv.Status.Phase = corev1.VolumeBound
	p.claim.Spec.VolumeName = p.pv.Name
	metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnBoundByController, "yes")
	if err := b.all(b.status(ctx, p.pv), b.update(ctx, p.claim)); err != nil {
		return err
	}
	p.claim.Status.Phase = corev1.ClaimBound
	p.claim.Status.AccessModes, p.claim.Status.Capacity = p.claim.Spec.AccessModes, p.pv.Spec.Capacity
	return b.all(b.status(ctx, p.claim))
}

// newVolume is what a provisioner writes. The attacher's finalizer is in it where an attacher of the
// same process removes it (FL-27).
func (b *bare) newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return runner.ProvisionedVolume(claim, driverName, "pvc-"+string(claim.UID), b.form == together)
}

func (b *bare) remove(ctx context.Context, it *item) error { return b.reclaim(ctx, &it.pair) }

// reclaim is FL-12. Separate, the controllers and csi-provisioner each remove their own finalizer.
func (b *bare) reclaim(ctx context.Context, p *pair) error {
	if err := b.all(b.finalize(ctx, p.claim)); err != nil {
		return err
	}
	p.pv.Status.Phase = corev1.VolumeReleased
	if err := b.all(b.status(ctx, p.pv), b.delete(ctx, p.pv)); err != nil {
		return err
	}
	if err := b.alone(b.finalize(ctx, p.pv, names.FinalizerVolume)); err != nil {
		return err
	}
	return b.all(b.finalize(ctx, p.pv))
}

// expand is FL-16.
func (b *bare) expand(ctx context.Context, it *item) error {
	claim, pv, size := it.pair.claim, it.pair.pv, corev1.ResourceList{corev1.ResourceStorage: doubleSize}
	claim.Status.AllocatedResources = size
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInProgress,
	}
	pv.Spec.Capacity = size
	if err := b.all(b.status(ctx, claim), b.update(ctx, pv)); err != nil {
		return err
	}
	claim.Status.Capacity, claim.Status.AllocatedResourceStatuses = size, nil
	return b.all(b.status(ctx, claim))
}

// modify is FL-17.
func (b *bare) modify(ctx context.Context, it *item) error {
	claim, pv := it.pair.claim, it.pair.pv
	claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
		TargetVolumeAttributesClassName: modified, Status: corev1.PersistentVolumeClaimModifyVolumeInProgress,
	}
	pv.Spec.VolumeAttributesClassName = new(modified)
	if err := b.all(b.status(ctx, claim), b.update(ctx, pv)); err != nil {
		return err
	}
	claim.Status.CurrentVolumeAttributesClassName, claim.Status.ModifyVolumeStatus = new(modified), nil
	return b.all(b.status(ctx, claim))
}
