package world

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Key is one object. An object that was created again under its name has another key.
type Key struct {
	types.NamespacedName
	UID types.UID
}

// KeyOf returns the key of an object.
func KeyOf(o client.Object) Key { return Key{client.ObjectKeyFromObject(o), o.GetUID()} }

// Readers are the two views of the API objects that a gather may need. Over a dump both are the dump.
type Readers struct {
	Cached client.Reader // the informer cache
	Live   client.Reader // the API server, where a stale cache could cost a volume or data
	// AllVolumes reads PersistentVolumes that may share a handle live, also those that Cached and
	// Live leave to other nodes; nil for Live.
	AllVolumes client.Reader
}

// Index is a field index that a gather reads by client.MatchingFields.
type Index struct {
	Kind   client.Object
	Field  string
	Values client.IndexerFunc
}

// AddIndexes adds field indexes to the informer cache or to a dump.
func AddIndexes(ctx context.Context, to client.FieldIndexer, indexes ...Index) error {
	for _, index := range indexes {
		if err := to.IndexField(ctx, index.Kind, index.Field, index.Values); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.Kind, index.Field, err)
		}
	}
	return nil
}

// IndexFunc returns an index function for one type; an object of another type has no values.
func IndexFunc[T client.Object](values func(T) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		object, ok := o.(T)
		if !ok {
			return nil
		}
		return values(object)
	}
}
