package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads an object into into and returns it. It returns nil without an error if the object does
// not exist.
func Get[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey, into T) (T, error) {
	var none T
	err := from.Get(ctx, key, into)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return none, fmt.Errorf("read %T %q: %w", into, key, err)
	case err != nil:
		return none, nil
	}
	return into, nil
}

// WithoutCopies returns a reader whose objects share memory with the informer cache, for a caller
// that changes only deep copies. A copy of each object would be most of the memory that a gather
// allocates.
func WithoutCopies(from client.Reader) client.Reader { return withoutCopies{from} }

type withoutCopies struct{ from client.Reader }

// Get implements client.Reader.
func (r withoutCopies) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	return r.from.Get(ctx, key, into, append(opts, client.UnsafeDisableDeepCopy)...)
}

// List implements client.Reader.
func (r withoutCopies) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return r.from.List(ctx, into, append(opts, client.UnsafeDisableDeepCopy)...)
}
