package kube

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddFinalizer and DropFinalizer change the named finalizers of the object with this uid and nothing else. They are strategic merge
// patches on the list, so they cannot conflict with another controller that changes its own finalizer at the same moment
// (D-20, k8s #1217), and the uid makes them fail on an object that was created again.
func AddFinalizer(uid types.UID, finalizer string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "finalizers": []string{finalizer}})
}

// DropFinalizer is the opposite of [AddFinalizer].
func DropFinalizer(uid types.UID, finalizers ...string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers})
}

// DropClaimFinalizer is [DropFinalizer] for a claim, which goes with its last finalizer: nobody else writes it at that moment.
func DropClaimFinalizer(claim *corev1.PersistentVolumeClaim, finalizer string) ClaimEdit {
	return dropFinalizer(claim, finalizer)
}

// DropVolumeFinalizer is [DropFinalizer] for a volume that goes with this finalizer, its last one.
func DropVolumeFinalizer(pv *corev1.PersistentVolume, finalizer string) VolumeEdit {
	return dropFinalizer(pv, finalizer)
}

func dropFinalizer[T editable[T]](o T, finalizer string) Edit[T] {
	return Edit[T]{DropFinalizer(o.GetUID(), finalizer), o, func(now T) bool {
		now.SetFinalizers(slices.DeleteFunc(now.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return true
	}}
}

// DropFinalizerUnchanged is [DropFinalizer] for an object in which nothing may have changed.
func DropFinalizerUnchanged(o client.Object, finalizer string) client.Patch {
	return metadataPatch(map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "$deleteFromPrimitiveList/finalizers": []string{finalizer},
	})
}

// DropFinalizerUnderPolicy drops a finalizer that the volume has, if its reclaim policy is still the one of this view. It does not
// compare resource versions: the PV controller writes the status of a new volume at the same moment, which is no reason to fail.
// A JSON patch can test; its index holds, since the finalizer at it is tested as well.
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

func metadataPatch(metadata map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}
