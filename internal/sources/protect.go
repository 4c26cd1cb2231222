package sources

import (
	"context"
	"errors"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

var errReplaced = errors.New("it was deleted and created again")

// Protect adds the finalizer of a source, and counts the claim as a user until [Controller.Done]. It
// returns when the API server has the finalizer. Without the permission to update VolumeSnapshots,
// which upstream's role had not before 6.2, the restore goes on without protection (RB-5, C-60).
func (c *Controller) Protect(ctx context.Context, a provision.ProtectSource, claim types.UID) error {
	ref := a.Source.Ref
	if c.isLocal(a.Source) {
		return c.protectLocally(ctx, a.Source, claim)
	}
	one := c.begin(ref, claim)
	if err := one.lock(ctx); err != nil {
		return fmt.Errorf("protect %s: %w", ref, err)
	}
	defer one.unlock()
	if source.IsSame(c.protected(ref), a.Source) {
		return nil
	}
	now, err := c.protect(ctx, a.Source)
	if apierrors.IsForbidden(err) && ref.IsSnapshot() {
		c.tellUnprotected(ctx, ref)
		now, err = source.State{}, c.confirm(ctx, a.Source)
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", ref, err)
	}
	c.setProtected(ref, now)
	return nil
}

// protect returns the source with the finalizer. For a VolumeSnapshot the first attempt is made from the
// object that was checked, without a read; a conflict says that the API server has a newer one. A claim
// changes too often for that. A finalizer that the object had then may have been removed since, so such an
// object is read. The caller has locked the source.
func (c *Controller) protect(ctx context.Context, s source.State) (source.State, error) {
	if s.Ref.IsSnapshot() && !source.IsProtected(s.Object(), s.Ref) {
		now, err := c.add(ctx, s.With(objectOf(s).DeepCopyObject().(client.Object)))
		if !apierrors.IsConflict(err) {
			return now, err
		}
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object, err := c.read(ctx, s)
		if err == nil {
			s, err = c.add(ctx, s.With(object))
		}
		return err
	})
	return s, err
}

// objectOf returns the object of a source as a client takes it, which is a claim or a VolumeSnapshot.
func objectOf(s source.State) client.Object { return s.Object().(client.Object) }

// add makes one attempt on the source, whose object it changes.
func (c *Controller) add(ctx context.Context, s source.State) (source.State, error) {
	object := objectOf(s)
	if !controllerutil.AddFinalizer(object, s.Ref.Finalizer()) {
		return s, nil
	}
	return s, c.Writer.Update(ctx, object)
}

// read returns the object of the source, as the API server has it.
func (c *Controller) read(ctx context.Context, s source.State) (client.Object, error) {
	object := newObject(s.Ref)
	if err := c.Live.Get(ctx, s.Ref.NamespacedName, object); err != nil {
		return nil, err
	}
	if object.GetUID() != s.Object().GetUID() {
		return nil, errReplaced
	}
	return object, nil
}

// confirm returns an error if a cached object is not the one that the API server has.
func (c *Controller) confirm(ctx context.Context, s source.State) error {
	if !s.Cached {
		return nil
	}
	_, err := c.read(ctx, s)
	return err
}

// Done ends what [Controller.Protect] began for a claim.
func (c *Controller) Done(claim types.UID) {
	if vs, ok := c.local.end(claim); ok {
		c.Together.Restored(vs)
		return
	}
	if ref, ok := c.end(claim); ok {
		c.enqueue(ref)
	}
}

// Resolved says that a request of the journal with a source is not there any more. Its claim may be
// gone, and then the request alone kept the source.
func (c *Controller) Resolved() {
	c.enqueueAll()
	for _, vs := range c.local.takeWaiting() {
		c.Together.Restored(vs)
	}
}

// unprotect removes the finalizer, unless a call has begun that the snapshot does not have. A claim that
// has come since adds the finalizer again before its call.
func (c *Controller) unprotect(ctx context.Context, h source.Held) (source.Verdict, error) {
	one := c.get(h.Ref)
	if err := one.lock(ctx); err != nil {
		return nil, fmt.Errorf("remove the finalizer of %s: %w", h.Ref, err)
	}
	defer one.unlock()
	_, begun := c.count(h.Ref)
	if other := source.BeforeUnprotect(h, begun); other != nil {
		return other, nil
	}
	// The next leader repeats what it finds in the journal, for which the source must be there. No
	// request for it is added meanwhile, since that needs the lock.
	if err := c.Flushed(ctx); err != nil {
		return nil, fmt.Errorf("remove the finalizer of %s: %w", h.Ref, err)
	}
	if now, err := c.reader().known(ctx, h); err == nil && now.IsKnown {
		h = now // the user may have deleted the VolumeSnapshot while the journal was written
	}
	c.setProtected(h.Ref, source.State{})
	err := c.remove(ctx, h.Ref, objectOf(h.State).DeepCopyObject().(client.Object))
	if apierrors.IsConflict(err) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			object, err := c.read(ctx, h.State)
			if err != nil {
				return err
			}
			return c.remove(ctx, h.Ref, object)
		})
	}
	if errors.Is(err, errReplaced) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("remove the finalizer of %s: %w", h.Ref, err)
	}
	return nil, nil
}

// remove makes one attempt on the object, which it changes.
func (c *Controller) remove(ctx context.Context, ref source.Ref, object client.Object) error {
	if !controllerutil.RemoveFinalizer(object, ref.Finalizer()) {
		return nil
	}
	return c.Writer.Update(ctx, object)
}

func newObject(ref source.Ref) client.Object {
	if ref.IsClaim() {
		return &corev1.PersistentVolumeClaim{}
	}
	return &snapshotv1.VolumeSnapshot{}
}
