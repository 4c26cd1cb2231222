package protection

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// finalizer adds and removes one finalizer.
type finalizer struct {
	name   string
	writer client.Writer
}

// apply does what is about the finalizer. handled is false for any other action.
func (f finalizer) apply(ctx context.Context, o client.Object, a action) (handled bool, err error) {
	switch a := a.(type) {
	case protection.AddFinalizer:
		// For an object that is gone, terminating or created again meanwhile the API server calls the patch
		// invalid. An event enqueues each of these.
		if err = f.patch(ctx, o, kube.AddFinalizer(o.GetUID(), f.name)); apierrors.IsInvalid(err) {
			err = nil
		}
		return true, err
	case protection.DropFinalizer:
		return true, f.patch(ctx, o, f.dropping(o, a))
	case protection.Ask, protection.SetUnused:
	}
	return false, nil
}

// applyOnly is apply for a controller whose actions are all about the finalizer.
func applyOnly(ctx context.Context, f finalizer, o client.Object, a action) (next, error) {
	if handled, err := f.apply(ctx, o, a); handled {
		return nil, err
	}
	return nil, fmt.Errorf("unknown action %T", a)
}

// dropping returns the patch that removes the finalizer.
func (f finalizer) dropping(o client.Object, a protection.DropFinalizer) client.Patch {
	if a.IfUnchanged {
		return kube.DropFinalizerUnchanged(o, f.name)
	}
	return kube.DropFinalizer(o, f.name)
}

func (f finalizer) patch(ctx context.Context, o client.Object, patch client.Patch) error {
	changed, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is no object", o)
	}
	if err := f.writer.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the finalizer %s of %T %q: %w", f.name, o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}
