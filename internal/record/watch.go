package record

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// Watch writes what exists and then each change, until the context ends or the output fails. It
// returns after the objects that exist have been written.
func Watch(ctx context.Context, from client.WithWatch, namespace string, w *Writer) error {
	if err := w.Begin(); err != nil {
		return err
	}
	watcher, err := inventory.Follow(ctx, from, namespace, w.Object)
	if err != nil {
		return err
	}
	return w.Listed(watcher.Unread())
}
