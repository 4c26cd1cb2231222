package kube

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
)

// The writes that bind claims and volumes. Each changes what it is about and nothing else, and
// carries what it relies on: a resource version where any change of the object must stop it, else a
// test of the fields that matter, so that the removal of a finalizer at the same moment is no
// reason to fail.

type object = map[string]any

// yes is the value of annotations whose presence counts.
const yes = "yes"

// TakeVolume puts the claim into spec.claimRef. mark says that the choice was the controller's (C3).
func TakeVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, mark bool) client.Patch {
	metadata := object{"uid": pv.UID, "resourceVersion": pv.ResourceVersion}
	if mark {
		metadata["annotations"] = object{names.AnnBoundByController: yes}
	}
	return merge(object{"metadata": metadata, "spec": object{"claimRef": object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.Namespace, "name": claim.Name, "uid": claim.UID,
		"resourceVersion": claim.ResourceVersion,
	}}})
}

// GiveVolumeBack undoes [TakeVolume]: all of it, or only the uid, which leaves the volume to claims
// of that name, or of another one.
func GiveVolumeBack(pv *corev1.PersistentVolume, whole bool, to types.NamespacedName) client.Patch {
	ref := object{"uid": nil, "resourceVersion": nil}
	switch {
	case whole:
		ref = nil
	case to.Name != "":
		ref["namespace"], ref["name"] = to.Namespace, to.Name
	}
	metadata := object{
		"uid":             pv.UID,
		"resourceVersion": pv.ResourceVersion,
		"annotations":     object{names.AnnBoundByController: nil},
	}
	return merge(object{"metadata": metadata, "spec": object{"claimRef": ref}})
}

// PhaseUnchanged is a status for a volume in which nothing may have changed since it was seen.
func PhaseUnchanged(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) client.Patch {
	status := object{"phase": phase, "message": nil}
	if message != "" {
		status["message"] = message
	}
	return merge(object{"metadata": object{"uid": pv.UID, "resourceVersion": pv.ResourceVersion}, "status": status})
}

// PhaseOfOwned is a status for a volume of the claim with this uid. Whose it is, its phase and its
// reclaim policy must be those that were seen.
func PhaseOfOwned(
	pv *corev1.PersistentVolume,
	owner types.UID,
	phase corev1.PersistentVolumePhase,
	message string,
) client.Patch {
	steps := []object{
		test("/metadata/uid", pv.UID),
		test("/spec/claimRef/uid", owner),
		test("/spec/persistentVolumeReclaimPolicy", pv.Spec.PersistentVolumeReclaimPolicy),
	}
	if pv.Status.Phase != "" {
		steps = append(steps, test("/status/phase", pv.Status.Phase))
	}
	return jsonPatch(append(steps, add("/status/phase", phase), add("/status/message", message)))
}

// NameVolume gives the claim its volume and says that the binding is complete. A claim's volume can
// be set once, so the uid is all that this relies on.
func NameVolume(claim *corev1.PersistentVolumeClaim, volume string, mark bool) client.Patch {
	annotations := object{names.AnnBindCompleted: yes}
	if mark {
		annotations[names.AnnBoundByController] = yes
	}
	return merge(object{
		"metadata": object{"uid": claim.UID, "annotations": annotations},
		"spec":     object{"volumeName": volume},
	})
}

// BoundClaim is what the status of a bound claim gets; nil for what it keeps.
type BoundClaim struct {
	AccessModes []corev1.PersistentVolumeAccessMode
	Capacity    corev1.ResourceList
	Attributes  *string
}

// BindStatus is the status of a claim that names this volume and is in the phase that was seen.
func BindStatus(claim *corev1.PersistentVolumeClaim, volume string, status BoundClaim) client.Patch {
	steps := []object{test("/metadata/uid", claim.UID), test("/spec/volumeName", volume)}
	if claim.Status.Phase != "" {
		steps = append(steps, test("/status/phase", claim.Status.Phase))
	}
	steps = append(steps, add("/status/phase", corev1.ClaimBound), add("/status/accessModes", status.AccessModes))
	if status.Capacity != nil {
		steps = append(steps, add("/status/capacity", status.Capacity))
	}
	if status.Attributes != nil {
		steps = append(steps, add("/status/currentVolumeAttributesClassName", *status.Attributes))
	}
	return jsonPatch(steps)
}

// ClearStatus is the status of a claim without a volume.
func ClearStatus(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase) client.Patch {
	return merge(object{
		"metadata": object{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
		"status":   object{"phase": phase, "accessModes": nil, "capacity": nil, "currentVolumeAttributesClassName": nil},
	})
}

// NameProvisioner asks a provisioner for a volume, under both of the names that the annotation has
// had (C4).
func NameProvisioner(claim *corev1.PersistentVolumeClaim, driver string) client.Patch {
	return merge(object{"metadata": object{"uid": claim.UID, "annotations": object{
		// a driver is not migrated
		names.AnnStorageProvisioner: driver, names.AnnBetaStorageProvisioner: driver, names.AnnMigratedTo: nil,
	}}})
}

// NameClass gives the claim a class. It can be set once.
func NameClass(claim *corev1.PersistentVolumeClaim, class string) client.Patch {
	return merge(object{"metadata": object{"uid": claim.UID}, "spec": object{"storageClassName": class}})
}

// NameMigration says which driver took over an in-tree plugin; "" for none. The finalizers go with
// it.
func NameMigration(o client.Object, driver string, finalizers []string) client.Patch {
	annotation := object{names.AnnMigratedTo: driver}
	if driver == "" {
		annotation[names.AnnMigratedTo] = nil
	}
	metadata := object{"uid": o.GetUID(), "annotations": annotation}
	if len(finalizers) > 0 {
		metadata["$deleteFromPrimitiveList/finalizers"] = finalizers
	}
	return metadataPatch(metadata)
}

func test(path string, value any) object {
	return object{"op": "test", "path": path, "value": value}
}

func add(path string, value any) object {
	return object{"op": "add", "path": path, "value": value}
}

func jsonPatch(steps []object) client.Patch { return raw(types.JSONPatchType, steps) }

func merge(change object) client.Patch { return raw(types.MergePatchType, change) }

func raw(kind types.PatchType, content any) client.Patch {
	data, err := json.Marshal(content)
	if err != nil {
		panic(err) // strings, lists and quantities only
	}
	return client.RawPatch(kind, data)
}
