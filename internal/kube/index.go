package kube

import (
	"context"
	"fmt"
	"reflect"

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

// GetSame reads the object with the key's uid; nil for none.
func GetSame[T client.Object](ctx context.Context, from client.Reader, key Key, into T) (T, error) {
	var none T
	found, err := Get(ctx, from, key.NamespacedName, into)
	if err != nil || client.Object(found) == client.Object(none) || found.GetUID() != key.UID {
		return none, err
	}
	return found, nil
}

// Readers are the two views of the API objects that a gather may need. Over a dump both are the dump.
type Readers struct {
	Cached client.Reader // the informer cache
	Live   client.Reader // the API server, where a stale cache could cost a volume or data
	// AllVolumes reads PersistentVolumes that may share a handle live, also those that Cached and
	// Live leave to other nodes; nil for Live.
	AllVolumes client.Reader
}

// Index is a field index that a gather reads by client.MatchingFields. Its values depend on nothing but
// the object.
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

// IndexBy returns the index of the objects of one kind by the values that a function returns for them.
func IndexBy[T client.Object](field string, values func(T) []string) Index {
	kind := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	return Index{kind, field, func(o client.Object) []string {
		object, ok := o.(T)
		if !ok {
			return nil
		}
		return values(object)
	}}
}
