package kube

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads an object into the given one and returns it; nil without an error for an object that does not exist.
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
