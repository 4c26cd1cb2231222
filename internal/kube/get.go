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
