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

// ReadOwn returns the newer of the cached object and this process' own write to it; nil if there is
// neither.
func ReadOwn[T client.Object](
	ctx context.Context, cached client.Reader, own *OwnWrites[T], key client.ObjectKey, into T,
) (T, error) {
	var none T
	found, ok, err := own.Read(key, func() (T, bool, error) {
		object, err := Get(ctx, cached, key, into)
		return object, err == nil && any(object) != any(none), err
	})
	if err != nil || !ok {
		return none, err
	}
	return found, nil
}
