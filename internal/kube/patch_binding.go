package kube

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// The patches that bind claims and volumes. Each has the uid as precondition. If any change of the
// object must make it fail, it also has the resourceVersion. Else it tests only the fields that
// matter, so that a finalizer removed at the same time causes no conflict.

type object = map[string]any

// yes is the value of annotations of which only the presence matters.
const yes = "yes"

// TakeVolume writes the claim into spec.claimRef. mark annotates that the controller chose the
// volume (C3).
func TakeVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, mark bool) client.Patch {
	metadata := object{"uid": pv.UID, "resourceVersion": pv.ResourceVersion}
	if mark {
		metadata["annotations"] = object{names.AnnBoundByController: yes}
	}
	return merge(object{"metadata": metadata, "spec": object{"claimRef": object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.Namespace, "name": claim.Name,
		"uid":             claim.UID,
		"resourceVersion": claim.ResourceVersion,
	}}})
}

// GiveVolumeBack undoes [TakeVolume]. With whole it removes spec.claimRef. Else it removes only the
// uid, which reserves the volume for a claim of the same name, or for the claim to if set.
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

// PhaseUnchanged writes the phase of a volume with its resourceVersion as precondition.
func PhaseUnchanged(pv *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) client.Patch {
	status := object{"phase": phase, "message": nil}
	if message != "" {
		status["message"] = message
	}
	return merge(object{"metadata": object{"uid": pv.UID, "resourceVersion": pv.ResourceVersion}, "status": status})
}

// PhaseOfOwned writes the phase of a volume that belongs to the claim with this uid. It fails if
// the owner, the phase or the reclaim policy has changed.
func PhaseOfOwned(
	pv *corev1.PersistentVolume, owner types.UID, phase corev1.PersistentVolumePhase, message string,
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

// NameVolume writes spec.volumeName of the claim and annotates that the binding is complete. The
// API server lets volumeName be set only once, so the uid is the only precondition.
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

// BoundClaim has the status fields of a bound claim; nil fields stay unchanged.
type BoundClaim struct {
	AccessModes []corev1.PersistentVolumeAccessMode
	Capacity    corev1.ResourceList
	Attributes  *string
	// Condition becomes the only condition of a claim that has none yet.
	Condition *corev1.PersistentVolumeClaimCondition
}

// BindStatus writes the phase Bound. It fails if the claim's volume or phase has changed.
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
	if status.Condition != nil {
		steps = append(steps, test("/status/conditions", nil), // no condition of another controller is overwritten
			add("/status/conditions", []corev1.PersistentVolumeClaimCondition{*status.Condition}))
	}
	return jsonPatch(steps)
}

// ClearStatus writes the phase of a claim without a volume and clears the other status fields.
func ClearStatus(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase) client.Patch {
	return merge(object{
		"metadata": object{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
		"status": object{
			"phase": phase, "accessModes": nil, "capacity": nil, "currentVolumeAttributesClassName": nil,
		},
	})
}

// NameProvisioner annotates the claim with its provisioner, under the current and the beta name of
// the annotation (C4).
func NameProvisioner(claim *corev1.PersistentVolumeClaim, driver string) client.Patch {
	return merge(object{"metadata": object{"uid": claim.UID, "annotations": object{
		// a CSI driver is not a migrated plugin
		names.AnnStorageProvisioner: driver, names.AnnBetaStorageProvisioner: driver, names.AnnMigratedTo: nil,
	}}})
}

// NameClass writes the claim's StorageClass, which the API server lets be set only once.
func NameClass(claim *corev1.PersistentVolumeClaim, class string) client.Patch {
	return merge(object{"metadata": object{"uid": claim.UID}, "spec": object{"storageClassName": class}})
}

// NameMigration annotates an object with the driver that took over its in-tree plugin; "" removes
// the annotation. It also removes the finalizers.
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
