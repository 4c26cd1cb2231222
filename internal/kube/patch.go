package kube

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddFinalizer and [DropFinalizer] change only the named finalizers of the object with this uid.
// They are strategic merge patches on the list, so they do not conflict when another controller
// changes its own finalizer at the same time (D-20, k8s #1217). The uid makes them fail on an
// object that was deleted and created again.
func AddFinalizer(uid types.UID, finalizer string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "finalizers": []string{finalizer}})
}

// AddFinalizerUnchanged is [AddFinalizer] with the object's resourceVersion as precondition.
func AddFinalizerUnchanged(o client.Object, finalizer string) client.Patch {
	return metadataPatch(
		map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "finalizers": []string{finalizer}},
	)
}

// DropFinalizer removes finalizers; see [AddFinalizer].
func DropFinalizer(o client.Object, finalizers ...string) client.Patch {
	return metadataPatch(dropping(o, finalizers))
}

// DropFinalizerUnchanged is [DropFinalizer] with the object's resourceVersion as precondition.
func DropFinalizerUnchanged(o client.Object, finalizers ...string) client.Patch {
	metadata := dropping(o, finalizers)
	metadata["resourceVersion"] = o.GetResourceVersion()
	return metadataPatch(metadata)
}

func dropping(o client.Object, finalizers []string) map[string]any {
	return map[string]any{"uid": o.GetUID(), "$deleteFromPrimitiveList/finalizers": finalizers}
}

// DropFinalizerUnderPolicy removes a finalizer with the volume's reclaim policy as precondition.
// The resourceVersion is no precondition: the PV controller may write the status at the same time,
// which must not cause a conflict. A JSON patch names the finalizer by its index, and also tests
// the value at that index.
func DropFinalizerUnderPolicy(pv *corev1.PersistentVolume, finalizer string) client.Patch {
	at := fmt.Sprintf("/metadata/finalizers/%d", slices.Index(pv.Finalizers, finalizer))
	raw, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pv.UID},
		{"op": "test", "path": "/spec/persistentVolumeReclaimPolicy", "value": pv.Spec.PersistentVolumeReclaimPolicy},
		{"op": "test", "path": at, "value": finalizer},
		{"op": "remove", "path": at},
	})
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.JSONPatchType, raw)
}

// SetClaimCondition writes one condition into the status of the claim with this uid. It is a
// strategic merge patch on the list, which merges by type, so it does not conflict with a resizer
// that writes another condition. The merge keeps a field that the patch leaves out, so the patch has
// the empty fields too.
func SetClaimCondition(uid types.UID, condition corev1.PersistentVolumeClaimCondition) client.Patch {
	fields := map[string]any{
		"type": condition.Type, "status": condition.Status, "reason": condition.Reason, "message": condition.Message,
		"lastProbeTime": condition.LastProbeTime, "lastTransitionTime": condition.LastTransitionTime,
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": []any{fields}},
	})
	if err != nil {
		panic(err) // strings and times only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}

// SetClaimHealth writes the health of the volume into the status of the claim with this uid; nil removes
// the field. It is a JSON merge patch, which replaces the whole list: a strategic merge patch would fold two
// conditions of one status (HM-33).
func SetClaimHealth(uid types.UID, health *corev1.VolumeHealthStatus) client.Patch {
	return merge(object{"metadata": object{"uid": uid}, "status": object{"healthStatus": health}})
}

func metadataPatch(metadata map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}
