package stockmodel

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// Provisioner is another provisioner: it makes volumes for the claims that name its
// driver, and deletes those that were released. A volume is its PersistentVolume; there is no
// storage.
type Provisioner struct {
	Server   *apiserver.Server
	Client   client.Client
	Driver   string
	Deleting func(*corev1.PersistentVolume) // called for each volume right before it is deleted
}

// call is how long a call to its driver takes. It does not check its decision again after the call,
// although the object may be deleted by then.
const call = 2170 * time.Microsecond

// Run works until ctx ends.
func (p *Provisioner) Run(ctx context.Context) { run(ctx, p.Server, p.step) }

// step does the next action for one object, and reports whether there was one.
func (p *Provisioner) step(ctx context.Context) bool {
	for _, claim := range apiserver.Objects(p.Server, &corev1.PersistentVolumeClaim{}) {
		if class := p.due(ctx, claim); class != nil {
			time.Sleep(call)
			return p.Client.Create(ctx, p.volume(claim, class)) == nil
		}
	}
	for _, pv := range apiserver.Objects(p.Server, &corev1.PersistentVolume{}) {
		if p.reclaim(ctx, pv) {
			return true
		}
	}
	return false
}

// due returns the class of a claim that has to be provisioned.
func (p *Provisioner) due(ctx context.Context, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil ||
		claim.Annotations[names.AnnStorageProvisioner] != p.Driver {
		return nil
	}
	class := &storagev1.StorageClass{}
	if p.Client.Get(ctx, client.ObjectKey{Name: objects.ClaimClass(claim)}, class) != nil {
		return nil
	}
	if *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer &&
		claim.Annotations[names.AnnSelectedNode] == "" {
		return nil
	}
	if p.Client.Get(ctx, client.ObjectKey{Name: nameFor(claim)}, &corev1.PersistentVolume{}) == nil {
		return nil
	}
	return class
}

func nameFor(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

func (p *Provisioner) volume(
	claim *corev1.PersistentVolumeClaim,
	class *storagev1.StorageClass,
) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: nameFor(claim), Annotations: map[string]string{names.AnnProvisionedBy: p.Driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy, StorageClassName: class.Name,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: p.Driver, VolumeHandle: nameFor(claim)},
			},
		},
	}
	if *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		pv.Finalizers = []string{names.FinalizerVolume}
	}
	return pv
}

// reclaim deletes a released volume of its own, and then removes the finalizer of the
// PersistentVolume.
func (p *Provisioner) reclaim(ctx context.Context, pv *corev1.PersistentVolume) bool {
	if pv.Annotations[names.AnnProvisionedBy] != p.Driver || pv.Status.Phase != corev1.VolumeReleased ||
		!slices.Contains(pv.Finalizers, names.FinalizerVolume) {
		return false
	}
	if pv.DeletionTimestamp == nil {
		p.Deleting(pv)
		time.Sleep(call)
		return p.Client.Delete(ctx, pv, client.Preconditions{UID: &pv.UID}) == nil
	}
	dropFinalizer(pv, names.FinalizerVolume)
	return p.Client.Update(ctx, pv) == nil
}
