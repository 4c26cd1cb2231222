package kube

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddFinalizer and DropFinalizer change the named finalizers of the object with this uid and
// nothing else. They are strategic merge patches on the list, so they cannot conflict with another
// controller that changes its own finalizer at the same moment (D-20, k8s #1217), and the uid makes
// them fail on an object that was created again.
func AddFinalizer(uid types.UID, finalizer string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "finalizers": []string{finalizer}})
}

// AddFinalizerUnchanged is [AddFinalizer] for an object in which nothing may have changed.
func AddFinalizerUnchanged(o client.Object, finalizer string) client.Patch {
	return metadataPatch(
		map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "finalizers": []string{finalizer}},
	)
}

// DropFinalizer is the opposite of [AddFinalizer].
func DropFinalizer(o client.Object, finalizers ...string) client.Patch {
	return metadataPatch(dropping(o, finalizers))
}

// DropFinalizerUnchanged is [DropFinalizer] for an object in which nothing may have changed.
func DropFinalizerUnchanged(o client.Object, finalizers ...string) client.Patch {
	metadata := dropping(o, finalizers)
	metadata["resourceVersion"] = o.GetResourceVersion()
	return metadataPatch(metadata)
}

func dropping(o client.Object, finalizers []string) map[string]any {
	return map[string]any{"uid": o.GetUID(), "$deleteFromPrimitiveList/finalizers": finalizers}
}

// DropFinalizerUnderPolicy drops a finalizer that the volume has, if its reclaim policy is still
// the one of this view. It does not compare resource versions: the PV controller writes the status
// of a new volume at the same moment, which is no reason to fail. A JSON patch can test; its index
// holds, since the finalizer at it is tested as well.
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
// strategic merge patch on the list, whose entries go by their type, so it does not conflict with a
// resizer that writes its own.
func SetClaimCondition(uid types.UID, condition corev1.PersistentVolumeClaimCondition) client.Patch {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": []corev1.PersistentVolumeClaimCondition{condition}},
	})
	if err != nil {
		panic(err) // strings and times only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}

func metadataPatch(metadata map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}
