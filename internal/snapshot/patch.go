package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// annotation returns a patch of one annotation of the object with this uid, which disturbs no other
// writer (SN-H6); nil removes it.
func annotation(uid types.UID, key string, value *string) client.Patch {
	return mergePatch(
		map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]*string{key: value}}},
	)
}

func mergePatch(content any) client.Patch {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.MergePatchType, raw)
}

// fieldsOf returns a merge patch with what changed differs in, for the object with before's uid. It
// has no resource version: the fields have one writer.
func fieldsOf(before, changed client.Object) (client.Patch, error) {
	raw, err := client.MergeFrom(before).Data(changed)
	if err != nil {
		return nil, fmt.Errorf("compare two versions of %q: %w", before.GetName(), err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("read a patch of %q: %w", before.GetName(), err)
	}
	fields["metadata"] = map[string]any{"uid": before.GetUID()}
	return mergePatch(fields), nil
}

// locked returns a merge patch that the API server refuses if the object has changed since it was
// read. Lists are replaced whole in custom resources, so that a list of finalizers must be written
// no other way (SN-H6).
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

func addFinalizers(o client.Object, finalizers ...string) {
	for _, f := range finalizers {
		if !slices.Contains(o.GetFinalizers(), f) {
			o.SetFinalizers(append(o.GetFinalizers(), f))
		}
	}
}

func removeFinalizers(o client.Object, finalizers ...string) {
	o.SetFinalizers(
		slices.DeleteFunc(
			slices.Clone(o.GetFinalizers()), func(f string) bool { return slices.Contains(finalizers, f) },
		),
	)
}
