package registry

import (
	"reflect"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fields says which fields of a kind a controller reads.
type Fields struct {
	kind reflect.Type
	keep func(from, to any)
}

// Reads returns Fields whose keep function copies fields from the whole object to the cached one.
// The identity of an object is copied already: namespace, name, uid, resourceVersion and the
// timestamps. The copy may share memory with the whole object.
func Reads[T any](keep func(from, to *T)) *Fields {
	return &Fields{
		kind: reflect.TypeFor[*T](),
		keep: func(from, to any) { keep(from.(*T), to.(*T)) },
	}
}

// Trim returns a cache transform that keeps only the fields that the given controllers read.
// Objects of kinds without [Fields] go through the transform of the other kinds.
func Trim(controllers []Controller, others toolscache.TransformFunc) toolscache.TransformFunc {
	byKind := map[reflect.Type][]*Fields{}
	for _, c := range controllers {
		for _, f := range c.Fields {
			if !slices.Contains(byKind[f.kind], f) { // several controllers read the same
				byKind[f.kind] = append(byKind[f.kind], f)
			}
		}
	}
	return func(in any) (any, error) {
		fields := byKind[reflect.TypeOf(in)]
		whole, isObject := in.(client.Object)
		if len(fields) == 0 || !isObject {
			return others(in)
		}
		kept := reflect.New(reflect.TypeOf(in).Elem()).Interface().(client.Object)
		copyIdentity(whole, kept)
		for _, f := range fields {
			f.keep(whole, kept)
		}
		return kept, nil
	}
}

// copyIdentity copies what every controller reads of an object's metadata.
func copyIdentity(from, to client.Object) {
	to.SetNamespace(from.GetNamespace())
	to.SetName(from.GetName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
}
