package protection

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
)

// finalizer writes one finalizer, and remembers the objects that it was taken from until they are gone from memory: nobody can put it
// on again, since they are being deleted, and a view that still shows it is old. Without this, each object that goes slowly has
// its finalizer dropped, and the API server asked, more than once.
type finalizer struct {
	name   string
	writer client.Writer

	mu      sync.Mutex
	dropped map[types.UID]bool
}

func newFinalizer(name string, writer client.Writer) *finalizer {
	return &finalizer{name: name, writer: writer, dropped: map[types.UID]bool{}}
}

// apply does what is about the finalizer. handled is false for any other action.
func (f *finalizer) apply(ctx context.Context, o client.Object, a action) (handled bool, err error) {
	switch a.(type) {
	case protection.AddFinalizer:
		return true, f.add(ctx, o)
	case protection.DropFinalizer:
		return true, f.drop(ctx, o)
	case protection.Ask, protection.SetUnused:
	}
	return false, nil
}

// add does nothing for an object that is gone, or is being deleted or was created again meanwhile, for which the API server calls the
// patch invalid: the watch tells of each.
func (f *finalizer) add(ctx context.Context, o client.Object) error {
	err := f.patch(ctx, o, kube.AddFinalizer(o.GetUID(), f.name))
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (f *finalizer) drop(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	f.remember(uid) // before the write: a wake-up may come before the answer
	err := f.patch(ctx, o, f.dropping(o))
	if err != nil {
		f.forget(uid)
	}
	return err
}

// dropping is the patch that drops it.
func (f *finalizer) dropping(o client.Object) client.Patch {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return kube.DropClaimFinalizer(o, f.name)
	case *corev1.PersistentVolume:
		if protection.GoesAsSeen(o) {
			return kube.DropFinalizerUnchanged(o, f.name)
		}
	}
	return kube.DropFinalizer(o, f.name)
}

func (f *finalizer) patch(ctx context.Context, o client.Object, patch client.Patch) error {
	changed, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a copy of %T is no object", o)
	}
	if err := f.writer.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the finalizer %s of %T %q: %w", f.name, o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

func (f *finalizer) remember(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropped[uid] = true
}

func (f *finalizer) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.dropped, uid)
}

// had reports whether the finalizer was taken from the object.
func (f *finalizer) had(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped[uid]
}
