package kube

import (
	"context"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ByKind returns a reader that gets objects of the given kinds from one reader, and everything else from
// another.
func ByKind(some, others client.Reader, kinds ...client.Object) client.Reader {
	r := byKind{Reader: others, some: some, kinds: map[reflect.Type]bool{}}
	for _, kind := range kinds {
		r.kinds[typeOf(kind)] = true
	}
	return r
}

type byKind struct {
	client.Reader
	some  client.Reader
	kinds map[reflect.Type]bool
}

// Get implements client.Reader.
func (r byKind) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if r.kinds[typeOf(into)] {
		return r.some.Get(ctx, key, into, opts...)
	}
	return r.Reader.Get(ctx, key, into, opts...)
}
