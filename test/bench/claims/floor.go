package claims

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// bare is a client that watches nothing, decides nothing and makes only the writes that no client can
// avoid: four to give a claim a volume, four to take it back. Apart, it is two programs, which have
// one write more to make each time.
type bare struct {
	api   client.Client
	apart bool
}

// pair is a claim and its volume.
type pair struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume // nil for one that is to be made
}

// bind is the writes that binding needs, of which the first on the volume makes it or takes one
// that is there.
func (b *bare) bind(ctx context.Context, p *pair) error {
	if p.pv != nil {
		p.pv.Spec.ClaimRef = newVolume(p.claim, floorDriver).Spec.ClaimRef
		if err := b.api.Update(ctx, p.pv); err != nil {
			return err
		}
		return b.complete(ctx, p)
	}
	if b.apart {
		p.claim.Annotations = map[string]string{
			names.AnnStorageProvisioner:     floorDriver,
			names.AnnBetaStorageProvisioner: floorDriver,
		}
		if err := b.api.Update(ctx, p.claim); err != nil {
			return err
		}
	}
	p.pv = newVolume(p.claim, floorDriver)
	if err := b.api.Create(ctx, p.pv); err != nil {
		return err
	}
	return b.complete(ctx, p)
}

// complete is what follows when the volume names the claim. The claim's two wait for the volume's
// first, and the volume's second for nothing.
func (b *bare) complete(ctx context.Context, p *pair) error {
	p.pv.Status.Phase = corev1.VolumeBound
	if err := b.api.Status().Update(ctx, p.pv); err != nil {
		return err
	}
	p.claim.Spec.VolumeName = p.pv.Name
	metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnBindCompleted, "yes")
	metav1.SetMetaDataAnnotation(&p.claim.ObjectMeta, names.AnnBoundByController, "yes")
	if err := b.api.Update(ctx, p.claim); err != nil {
		return err
	}
	p.claim.Status.Phase, p.claim.Status.AccessModes, p.claim.Status.Capacity = corev1.ClaimBound,
		p.claim.Spec.AccessModes, p.pv.Spec.Capacity
	return b.api.Status().Update(ctx, p.claim)
}

// reclaim is the writes that deletion needs, in the forms that cost the API server least.
func (b *bare) reclaim(ctx context.Context, p *pair) error {
	p.claim.Finalizers, p.claim.ManagedFields, p.claim.ResourceVersion = nil, forgetWriters, ""
	if err := b.api.Update(ctx, p.claim); err != nil {
		return err
	}
	p.pv.Status.Phase = corev1.VolumeReleased
	if err := b.api.Status().Update(ctx, p.pv); err != nil {
		return err
	}
	if err := b.api.Delete(ctx, p.pv); err != nil {
		return err
	}
	if b.apart {
		if err := b.api.Patch(ctx, p.pv, withoutFinalizers(p.pv.UID, names.FinalizerPVProtection)); err != nil {
			return err
		}
	}
	return b.api.Patch(ctx, p.pv, withoutFinalizers(p.pv.UID))
}

const (
	floorDriver = "floor.bench.purser"
	// floorWriter is who writes, for the API server, which notes it for each field. No controller
	// is the user who made the claim.
	floorWriter = "floor"
)

// newVolume is what a provisioner writes for a claim, with all that others rely on: the least that
// it could write is less than any does.
func newVolume(claim *corev1.PersistentVolumeClaim, driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Finalizers: []string{names.FinalizerVolume},
			Annotations: map[string]string{
				names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "", names.AnnDeletionSecretNamespace: "",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
			Capacity:                      runner.Gibibyte(),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{
					Driver: driver, VolumeHandle: "vol-" + string(claim.UID),
					VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: "1767225600000-1234-" + driver},
				},
			},
		},
	}
}

// forgetWriters has the API server note no longer who wrote which field, which is half of its time
// for a write.
var forgetWriters = []metav1.ManagedFieldsEntry{{}}

// withoutFinalizers leaves those that are given and no others, on an object with the uid, if there
// is one.
func withoutFinalizers(uid types.UID, but ...string) client.Patch {
	metadata := map[string]any{"finalizers": but, "managedFields": forgetWriters}
	if uid != "" {
		metadata["uid"] = uid
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.MergePatchType, raw)
}
