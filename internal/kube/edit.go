package kube

import (
	"context"
	"reflect"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/objects"
)

// Edit is a patch, and what it does to an object of which all is known. Both come to the same, and
// the API server needs twice the time for the patch: it writes the object out as JSON, changes
// that, and reads it again.
type Edit[T editable[T]] struct {
	client.Patch
	base T
	// change makes the change, or reports that what the patch tests does not hold.
	change func(T) bool
}

type editable[T any] interface {
	client.Object
	DeepCopy() T
}

// On has the edit made to a newer state of the same object than the one that it was decided on; nil
// for no newer one.
func (e Edit[T]) On(newer T) Edit[T] {
	if !reflect.ValueOf(newer).IsNil() && newer.GetUID() == e.base.GetUID() &&
		objects.IsNewer(newer.GetResourceVersion(), e.base.GetResourceVersion()) {
		e.base = newer
	}
	return e
}

// whole is the object as it is to be, for the API server to compare the resource version; nil where
// only a patch will do. Of what is written as a status the API server takes no spec.
func (e Edit[T]) whole(status bool) client.Object {
	if !IsWhole(e.base) && (!status || !lacksSpec(e.base)) {
		return nil
	}
	o := e.base.DeepCopy()
	o.SetManagedFields(nil) // the API server keeps its own
	if !e.change(o) {
		return nil
	}
	return o
}

// What a trim leaves of the managed fields of an object of which it has dropped nothing else, and
// nothing else but parts of the spec.
var (
	complete    = []metav1.ManagedFieldsEntry{}
	specDropped = []metav1.ManagedFieldsEntry{{Manager: "(trimmed)"}}
)

// IsWhole reports whether an object is as the API server has it, but for its managed fields: no
// trim has dropped anything.
func IsWhole(o client.Object) bool { return o.GetManagedFields() != nil && !lacksSpec(o) }

// markWhole says of an object that is being trimmed that nothing is dropped but what the mark
// names. An object without managed fields has been trimmed before, which a cache may do: no caller
// knows what it has lost.
func markWhole(o client.Object, mark []metav1.ManagedFieldsEntry) {
	if o.GetManagedFields() != nil && !lacksSpec(o) {
		o.SetManagedFields(mark)
	}
}

// lacksSpec reports whether a trim has dropped managed fields and parts of the spec, and nothing
// else.
func lacksSpec(o client.Object) bool {
	managers := o.GetManagedFields()
	return len(managers) == 1 && managers[0].Manager == specDropped[0].Manager
}

// Replacing is a client that sends an [Edit] as the whole object where it may. What the API server
// refuses it sends as the patch that it is, so what a write relies on is the same in any case.
type Replacing struct {
	client.Client
	// Knows reports whether the API server has no fields that are not in the types of this program:
	// those would be lost.
	Knows     func() bool
	forbidden atomic.Bool // to replace, which older roles do not allow
}

// Patch implements client.Client.
func (r *Replacing) Patch(ctx context.Context, o client.Object, p client.Patch, options ...client.PatchOption) error {
	if len(options) == 0 {
		if sent, err := r.replace(o, p, false, func(whole client.Object) error { return r.Update(ctx, whole) }); sent {
			return err
		}
	}
	return r.Client.Patch(ctx, o, p, options...)
}

// Status implements client.Client.
func (r *Replacing) Status() client.SubResourceWriter {
	return replacingStatus{r.Client.Status(), r}
}

type replacingStatus struct {
	client.SubResourceWriter
	of *Replacing
}

// Patch implements client.SubResourceWriter.
func (s replacingStatus) Patch(
	ctx context.Context,
	o client.Object,
	p client.Patch,
	options ...client.SubResourcePatchOption,
) error {
	if len(options) == 0 {
		if sent, err := s.of.replace(o, p, true, func(whole client.Object) error { return s.Update(ctx, whole) }); sent {
			return err
		}
	}
	return s.SubResourceWriter.Patch(ctx, o, p, options...)
}

// replace fills o with the answer. sent is false where the patch is to be sent: instead, or since
// the API server has refused the object.
func (r *Replacing) replace(
	o client.Object,
	p client.Patch,
	status bool,
	send func(client.Object) error,
) (sent bool, err error) {
	edit, ok := p.(interface {
		whole(status bool) client.Object
	})
	if !ok || r.forbidden.Load() || !r.Knows() {
		return false, nil
	}
	whole := edit.whole(status)
	if whole == nil {
		return false, nil
	}
	switch err := send(whole); {
	case err == nil:
		reflect.ValueOf(o).Elem().Set(reflect.ValueOf(whole).Elem())
		return true, nil
	case apierrors.IsForbidden(err):
		r.forbidden.Store(true)
		return false, nil
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return false, nil
	default:
		return true, err
	}
}
