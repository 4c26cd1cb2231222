package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/objects"
)

// itemType returns the struct type of the items of a list; nil for a list without items.
func itemType(list client.ObjectList) reflect.Type {
	field, ok := reflect.TypeOf(list).Elem().FieldByName("Items")
	if !ok {
		return nil
	}
	of := field.Type.Elem()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of
}

// listed lists from the cache, and returns the own writes that can concern the list.
func (k *ownKind) listed(
	ctx context.Context, cached client.Reader, list client.ObjectList, opts []client.ListOption,
) (map[client.ObjectKey]client.Object, error) {
	field, value, ok := fieldOf(opts)
	found, isIndexed := k.with(field, value)
	if !ok || !isIndexed {
		own := k.entries() // before the cache: an entry that is dropped by then is in the cache
		return own, cached.List(ctx, list, opts...)
	}
	if err := cached.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	keys, err := keysOfList(list)
	if err != nil {
		return nil, err
	}
	if k.addListed(found, keys) {
		return found.entries, nil
	}
	own := k.entries()
	return own, cached.List(ctx, list, opts...)
}

// fieldOf returns the first field that a List with these options selects by, if it must be equal to
// a value.
func fieldOf(opts []client.ListOption) (field, value string, ok bool) {
	var options client.ListOptions
	options.ApplyOptions(opts)
	if options.FieldSelector == nil {
		return "", "", false
	}
	for _, r := range options.FieldSelector.Requirements() {
		return r.Field, r.Value, r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
	}
	return "", "", false
}

func keysOfList(list client.ObjectList) (keys []client.ObjectKey, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object of the API", item)
		}
		keys = append(keys, client.ObjectKeyFromObject(object))
		return nil
	})
	return keys, err
}

// matcher returns the function that tells which objects a List with these options returns.
func (o *Overlay) matcher(of reflect.Type, opts []client.ListOption) (func(client.Object) bool, error) {
	var options client.ListOptions
	options.ApplyOptions(opts)
	var requirements fields.Requirements
	if options.FieldSelector != nil {
		requirements = options.FieldSelector.Requirements()
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	values := make([]client.IndexerFunc, 0, len(requirements))
	for _, r := range requirements {
		by := o.indexes[of][r.Field]
		if by == nil || r.Operator != selection.Equals && r.Operator != selection.DoubleEquals {
			return nil, fmt.Errorf(
				"no index of %s by %s %s; this is a bug of Purser, please report it", of, r.Field, r.Operator,
			)
		}
		values = append(values, by)
	}
	return func(object client.Object) bool {
		if options.Namespace != "" && object.GetNamespace() != options.Namespace ||
			options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			return false
		}
		for i, by := range values {
			if !slices.Contains(by(object), requirements[i].Value) {
				return false
			}
		}
		return true
	}, nil
}

// isNewerWrite reports whether an own write is to be shown instead of the cached object.
func isNewerWrite(written, cached client.Object) bool {
	return !objects.IsNewer(cached.GetResourceVersion(), written.GetResourceVersion()) &&
		written.GetResourceVersion() != cached.GetResourceVersion()
}

func notFound(of client.Object, key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: typeOf(of).Name()}, key.Name)
}
