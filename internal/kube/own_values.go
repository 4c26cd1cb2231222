package kube

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// valueIndex finds own writes by the values of field indexes: in a burst hundreds wait for the watch,
// and a list by an index concerns one or two of them. A nil index has nothing.
type valueIndex[T client.Object] struct {
	fields map[string]func(T) []string
	keys   map[fieldValue]map[client.ObjectKey]struct{}
}

type fieldValue struct{ field, value string }

func newValueIndex[T client.Object]() *valueIndex[T] {
	return &valueIndex[T]{
		fields: map[string]func(T) []string{}, keys: map[fieldValue]map[client.ObjectKey]struct{}{},
	}
}

func (x *valueIndex[T]) add(key client.ObjectKey, own T) {
	if x == nil {
		return
	}
	for field, values := range x.fields {
		for _, value := range values(own) {
			at := fieldValue{field, value}
			if x.keys[at] == nil {
				x.keys[at] = map[client.ObjectKey]struct{}{}
			}
			x.keys[at][key] = struct{}{}
		}
	}
}

func (x *valueIndex[T]) remove(key client.ObjectKey, own T) {
	if x == nil {
		return
	}
	for field, values := range x.fields {
		for _, value := range values(own) {
			at := fieldValue{field, value}
			if delete(x.keys[at], key); len(x.keys[at]) == 0 {
				delete(x.keys, at)
			}
		}
	}
}

// indexBy adds an index by a field, also of the entries that exist, or replaces it.
func (r *OwnWrites[T]) indexBy(field string, values func(T) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = newValueIndex[T]()
	}
	for key, own := range r.byKey { // without what the field had before
		r.values.remove(key, own)
	}
	r.values.fields[field] = values
	for key, own := range r.byKey {
		r.values.add(key, own)
	}
}

// candidates has the entries that a list by a field concerns, as far as they are known before the
// cache is read.
type candidates[T client.Object] struct {
	entries map[client.ObjectKey]T
	drops   uint64
}

// with returns the entries that have a value of a field; false if the field has no index.
func (r *OwnWrites[T]) with(field, value string) (found candidates[T], isIndexed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil || r.values.fields[field] == nil {
		return found, false
	}
	found = candidates[T]{map[client.ObjectKey]T{}, r.drops}
	for key := range r.values.keys[fieldValue{field, value}] {
		if own, ok := r.byKey[key]; ok {
			found.entries[key] = own
		}
	}
	return found, true
}

// addListed adds the entries of objects that the cache listed since: a write may have taken the value
// from them. It returns false if any entry was dropped meanwhile, since that one can be newer than
// what was listed. The caller then lists again, with all entries.
func (r *OwnWrites[T]) addListed(found candidates[T], listed []client.ObjectKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drops != found.drops {
		return false
	}
	for _, key := range listed {
		if own, ok := r.byKey[key]; ok {
			found.entries[key] = own
		}
	}
	return true
}

// entries returns all own writes that the watch may not have delivered yet.
func (r *OwnWrites[T]) entries() map[client.ObjectKey]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byKey)
}
