package kube

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddFinalizer and DropFinalizer change one finalizer of the object with this uid and nothing else. They are strategic merge
// patches on the list, so they cannot conflict with another controller that changes its own finalizer at the same moment
// (D-20, k8s #1217), and the uid makes them fail on an object that was created again.
func AddFinalizer(uid types.UID, finalizer string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "finalizers": []string{finalizer}})
}

// DropFinalizer is the opposite of [AddFinalizer].
func DropFinalizer(uid types.UID, finalizer string) client.Patch {
	return metadataPatch(map[string]any{"uid": uid, "$deleteFromPrimitiveList/finalizers": []string{finalizer}})
}

func metadataPatch(metadata map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and lists of strings only
	}
	return client.RawPatch(types.StrategicMergePatchType, raw)
}
