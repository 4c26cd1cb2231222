package kube

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Recording returns the client with the same methods whose successful writes are laid over the cache.
func (o *Overlay) Recording(to client.Client) client.Client { return recorder{to, o} }

// recorder notes each write that the API server has answered. One without an answer is not noted: it may
// have failed.
type recorder struct {
	client.Client
	overlay *Overlay
}

// Create implements client.Writer.
func (r recorder) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	return r.overlay.noted(object, r.Client.Create(ctx, object, opts...))
}

// Update implements client.Writer.
func (r recorder) Update(ctx context.Context, object client.Object, opts ...client.UpdateOption) error {
	return r.overlay.noted(object, r.Client.Update(ctx, object, opts...))
}

// Patch implements client.Writer.
func (r recorder) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	return r.overlay.noted(object, r.Client.Patch(ctx, object, patch, opts...))
}

// Delete implements client.Writer.
func (r recorder) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	err := r.Client.Delete(ctx, object, opts...)
	if err == nil {
		r.overlay.Deleted(object)
	}
	return err
}

// Status implements client.Client.
func (r recorder) Status() client.SubResourceWriter {
	return statusRecorder{r.Client.Status(), r.overlay}
}

type statusRecorder struct {
	client.SubResourceWriter
	overlay *Overlay
}

// Update implements client.SubResourceWriter.
func (r statusRecorder) Update(
	ctx context.Context, object client.Object, opts ...client.SubResourceUpdateOption,
) error {
	return r.overlay.noted(object, r.SubResourceWriter.Update(ctx, object, opts...))
}

// Patch implements client.SubResourceWriter.
func (r statusRecorder) Patch(
	ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return r.overlay.noted(object, r.SubResourceWriter.Patch(ctx, object, patch, opts...))
}

// noted lays the response of a write over the cache and returns the write's error.
func (o *Overlay) noted(object client.Object, err error) error {
	if err == nil && o.kind(typeOf(object)) != nil {
		o.Wrote(deepCopy(object)) // the caller may change its own
	}
	return err
}
