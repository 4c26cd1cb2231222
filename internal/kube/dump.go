package kube

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Dump is a list of objects. It implements client.Reader, and client.FieldIndexer for the indexes
// that the informer cache has. What it returns are copies.
type Dump struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupVersionKind][]client.Object                       // by namespace and name
	indexes map[schema.GroupVersionKind]map[string]map[string][]client.Object // by field and value, in order
}

// NewDump returns a reader over the objects. An error names an object whose type the scheme lacks, or
// whose namespace and name another one has.
func NewDump(scheme *runtime.Scheme, objects ...client.Object) (*Dump, error) {
	r := &Dump{
		scheme: scheme, objects: map[schema.GroupVersionKind][]client.Object{},
		indexes: map[schema.GroupVersionKind]map[string]map[string][]client.Object{},
	}
	kinds := map[reflect.Type]schema.GroupVersionKind{}
	for _, o := range objects {
		kind, known := kinds[reflect.TypeOf(o)]
		if !known {
			var err error
			if kind, err = apiutil.GVKForObject(o, scheme); err != nil {
				return nil, fmt.Errorf("%T %q: %w", o, client.ObjectKeyFromObject(o), err)
			}
			if isOfOneKind(o) {
				kinds[reflect.TypeOf(o)] = kind
			}
		}
		r.objects[kind] = append(r.objects[kind], o)
	}
	for kind, list := range r.objects {
		slices.SortFunc(list, byKey)
		for i := 1; i < len(list); i++ {
			if byKey(list[i-1], list[i]) == 0 {
				return nil, fmt.Errorf("the dump has the %s %q twice", kind.Kind, client.ObjectKeyFromObject(list[i]))
			}
		}
	}
	return r, nil
}

// isOfOneKind reports whether all objects of the type have the same kind.
func isOfOneKind(o client.Object) bool {
	_, isPartial := o.(*metav1.PartialObjectMetadata)
	_, isUnstructured := o.(runtime.Unstructured)
	return !isPartial && !isUnstructured
}

// WithoutIndexes returns a reader over the same objects that has no indexes.
func (r *Dump) WithoutIndexes() *Dump {
	return &Dump{
		scheme: r.scheme, objects: r.objects,
		indexes: map[schema.GroupVersionKind]map[string]map[string][]client.Object{},
	}
}

func byKey(a, b client.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// IndexField implements client.FieldIndexer.
func (r *Dump) IndexField(_ context.Context, of client.Object, field string, values client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(of, r.scheme)
	if err != nil {
		return err
	}
	if r.indexes[kind] == nil {
		r.indexes[kind] = map[string]map[string][]client.Object{}
	}
	if r.indexes[kind][field] != nil {
		return fmt.Errorf("%s has the index %q already", kind.Kind, field)
	}
	index := map[string][]client.Object{}
	for _, o := range r.objects[kind] {
		for _, value := range values(o) {
			if same := index[value]; len(same) == 0 || same[len(same)-1] != o {
				index[value] = append(same, o)
			}
		}
	}
	r.indexes[kind][field] = index
	return nil
}

// Get implements client.Reader.
func (r *Dump) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, r.scheme)
	if err != nil {
		return err
	}
	at, found := slices.BinarySearchFunc(r.objects[kind], key, func(o client.Object, key client.ObjectKey) int {
		return cmp.Or(strings.Compare(o.GetNamespace(), key.Namespace), strings.Compare(o.GetName(), key.Name))
	})
	if found {
		return fill(into, r.objects[kind][at])
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.String())
}

// fill copies an object. Of one that is read as metadata it copies those only, and one of which the
// dump has only metadata can only be read so.
func fill(into, from client.Object) error {
	if reflect.TypeOf(into) == reflect.TypeOf(from) {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
		return nil
	}
	partial, ok := into.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("the dump has %q as %T, and not as %T", client.ObjectKeyFromObject(from), from, into)
	}
	source, err := meta.Accessor(from.DeepCopyObject())
	if err != nil {
		return err
	}
	partial.ObjectMeta = metav1.ObjectMeta{
		Namespace: source.GetNamespace(), Name: source.GetName(), UID: source.GetUID(),
		ResourceVersion: source.GetResourceVersion(), Labels: source.GetLabels(),
		Annotations: source.GetAnnotations(), Finalizers: source.GetFinalizers(),
		CreationTimestamp: source.GetCreationTimestamp(), DeletionTimestamp: source.GetDeletionTimestamp(),
		OwnerReferences: source.GetOwnerReferences(),
	}
	return nil
}

// List implements client.Reader. Like the informer cache it selects by namespace, labels and indexed
// fields, and has no pages.
func (r *Dump) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(into, r.scheme)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.Continue != "" {
		return fmt.Errorf("list %s: a dump has no pages", kind.Kind)
	}
	candidates, err := r.byField(kind, o.FieldSelector)
	if err != nil {
		return err
	}
	var found []runtime.Object
	for _, object := range candidates {
		if o.Limit > 0 && int64(len(found)) == o.Limit {
			break
		}
		if (o.Namespace == "" || object.GetNamespace() == o.Namespace) &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels()))) {
			found = append(found, object.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

// byField returns the objects that a field selector selects. A field without an index is an error, as
// it is for the informer cache.
func (r *Dump) byField(kind schema.GroupVersionKind, selector fields.Selector) ([]client.Object, error) {
	all := r.objects[kind]
	if selector == nil {
		return all, nil
	}
	for i, q := range selector.Requirements() {
		index := r.indexes[kind][q.Field]
		switch {
		case index == nil:
			return nil, fmt.Errorf("list %s: there is no index on the field %q", kind.Kind, q.Field)
		case q.Operator != selection.Equals && q.Operator != selection.DoubleEquals:
			return nil, fmt.Errorf("list %s: the field %q can only be compared for equality", kind.Kind, q.Field)
		case i == 0:
			all = index[q.Value]
		default:
			all = slices.DeleteFunc(
				slices.Clone(all), func(o client.Object) bool { return !slices.Contains(index[q.Value], o) },
			)
		}
	}
	return all, nil
}
