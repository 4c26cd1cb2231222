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

	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

var errReplaced = errors.New("it was deleted and created again")

// Protect adds the finalizer of a source, and counts the claim as a user until [Controller.Done]. It
// returns when the API server has the finalizer. Without the permission to update VolumeSnapshots,
// which upstream's role had not before 6.2, the restore goes on without protection (RB-5, C-60).
func (c *Controller) Protect(ctx context.Context, a provision.ProtectSource, claim types.UID) error {
	one := c.begin(a.Ref, claim)
	if err := one.lock(ctx); err != nil {
		return fmt.Errorf("protect %s: %w", a.Ref, err)
	}
	defer one.unlock()
	if one.uid == a.UID && (a.Protected || !objects.IsNewer(a.Version, one.version)) {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return c.protect(ctx, a, one) })
	if apierrors.IsForbidden(err) && a.Ref.IsSnapshot() {
		c.tellUnprotected(ctx, a.Ref)
		return nil
	}
	if err != nil {
		return fmt.Errorf("protect %s: %w", a.Ref, err)
	}
	return nil
}

// protect makes one attempt on the object as the API server has it. The caller has locked one.
func (c *Controller) protect(ctx context.Context, a provision.ProtectSource, one *held) error {
	object := newObject(a.Ref)
	if err := c.Live.Get(ctx, a.Ref.NamespacedName, object); err != nil {
		return err
	}
	if object.GetUID() != a.UID {
		return errReplaced
	}
	if controllerutil.AddFinalizer(object, a.Ref.Finalizer()) {
		if err := c.Writer.Update(ctx, object); err != nil {
			return err
		}
	}
	one.uid, one.version = object.GetUID(), object.GetResourceVersion()
	return nil
}

// Done ends what [Controller.Protect] began for a claim.
func (c *Controller) Done(claim types.UID) {
	if ref, ok := c.end(claim); ok {
		c.enqueue(ref)
	}
}

// Resolved says that a request of the journal with a source is not there any more. Its claim may be
// gone, and then the request alone kept the source.
func (c *Controller) Resolved() { c.enqueueAll() }

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
	one.uid, one.version = "", ""
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		object := newObject(h.Ref)
		err := c.Live.Get(ctx, h.Ref.NamespacedName, object)
		if err != nil || object.GetUID() != h.Object().GetUID() ||
			!controllerutil.RemoveFinalizer(object, h.Ref.Finalizer()) {
			return client.IgnoreNotFound(err)
		}
		return client.IgnoreNotFound(c.Writer.Update(ctx, object))
	})
	if err != nil {
		return nil, fmt.Errorf("remove the finalizer of %s: %w", h.Ref, err)
	}
	return nil, nil
}

func newObject(ref source.Ref) client.Object {
	if ref.IsClaim() {
		return &corev1.PersistentVolumeClaim{}
	}
	return &snapshotv1.VolumeSnapshot{}
}
