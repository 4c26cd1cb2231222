package protection

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// finalizer adds and removes one finalizer. It remembers the objects from which it removed it until
// the cache does not have them any more, for internal/protection/rules to recognize a stale cache.
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

// add does nothing for an object that is gone, terminating or created again meanwhile, for which the
// API server calls the patch invalid: an event enqueues each of these.
func (f *finalizer) add(ctx context.Context, o client.Object) error {
	err := f.patch(ctx, o, kube.AddFinalizer(o.GetUID(), f.name))
	if apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

func (f *finalizer) drop(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	f.remember(uid) // before the write: the event of the write may come before its response
	err := f.patch(ctx, o, f.dropping(o))
	if err != nil {
		f.forget(uid)
	}
	return err
}

// dropping returns the patch that removes the finalizer.
func (f *finalizer) dropping(o client.Object) client.Patch {
	if pv, ok := o.(*corev1.PersistentVolume); ok && protection.GoesAsSeen(pv) {
		return kube.DropFinalizerUnchanged(pv, f.name)
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

// isRemoved reports whether this process removed the finalizer from the object.
func (f *finalizer) isRemoved(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped[uid]
}
