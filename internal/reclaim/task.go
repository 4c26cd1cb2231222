package reclaim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[reclaim.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, name string) (reclaim.Snapshot, error) {
	return c.reader().Gather(ctx, name)
}

// Read implements reconcile.Reader.
func (c *Controller) Read(ctx context.Context, s reclaim.Snapshot, refs []verdict.Ref) (reclaim.Snapshot, error) {
	return c.reader().Read(ctx, s, refs)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s reclaim.Snapshot, now time.Time) next { return reclaim.Decide(s, now) }

func (c *Controller) reader() Reader {
	return Reader{
		Readers: kube.Readers{Cached: c.Cached, Live: c.Live, AllVolumes: c.AllVolumes},
		Driver:  c.Driver, Protector: c.DropProtection, Attacher: c.DropAttacher,
		Known: c.knows, CallsEnd: c.callsEnd, List: c.list,
	}
}

// knows returns what this process knows of a volume. After a failed attempt, the release that it
// observed proves nothing any more.
func (c *Controller) knows(pv *corev1.PersistentVolume) reclaim.Known {
	known := c.memory.knows(pv)
	if c.retries.Get(pv.Name).Failed > 0 {
		known.ReleasedFrom = ""
	}
	return known
}

// callsEnd reads from the journal when a previous leader's calls for the volume must have ended.
func (c *Controller) callsEnd(ctx context.Context, pv *corev1.PersistentVolume) (time.Time, error) {
	if err := c.Journal.Wait(ctx); err != nil {
		return time.Time{}, err
	}
	var claim types.UID
	if ref := pv.Spec.ClaimRef; ref != nil {
		claim = ref.UID
	}
	return c.Journal.CallsEnd(pv.Name, claim), nil
}

// list returns the names of all volumes with a handle. The next list for a volume that was listed for
// before may be delayed.
func (c *Controller) list(ctx context.Context, handle, volume string) ([]string, error) {
	return c.sameHandleLists.Of(ctx, handle, volume == "" || c.retries.Get(volume).Failed > 0)
}

// Sharing returns the driver's volumes with a handle, read live: a stale cache could cost data
// (D-37).
func (c *Controller) Sharing(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error) {
	listed, err := c.list(ctx, handle, "")
	if err != nil {
		return nil, err
	}
	all, _, err := c.reader().withHandle(ctx, handle, listed, "")
	return all, err
}

// About implements reconcile.Task.
func (c *Controller) About(name string, s reclaim.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyVolume, name}}
	if s.Volume != nil {
		about.Object = s.Volume
		about.Log = append(about.Log, telemetry.KeyClass, s.Volume.Spec.StorageClassName)
		if claim := s.Volume.Spec.ClaimRef; claim != nil {
			about.Log = append(about.Log, telemetry.KeyClaim, claim.Namespace+"/"+claim.Name)
		}
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s reclaim.Snapshot, action reclaim.Action) (next, error) {
	switch a := action.(type) {
	case reclaim.DeleteVolume:
		return c.deleteVolume(ctx, s, a), nil
	case reclaim.DeleteObject:
		return nil, c.deleteObject(ctx, a.Volume)
	case reclaim.AddFinalizer:
		return c.protect(ctx, a)
	case reclaim.RemoveFinalizers:
		return nil, c.removeFinalizers(ctx, a)
	case reclaim.RemoveFinalizerIfRetained:
		err := c.patch(ctx, a.Volume, kube.DropFinalizerUnderPolicy(a.Volume, names.FinalizerVolume))
		return nil, client.IgnoreNotFound(err)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// protect ends the run if the volume does not exist: it was reclaimed, most likely by us (H-18).
func (c *Controller) protect(ctx context.Context, a reclaim.AddFinalizer) (next, error) {
	c.memory.protects(a.Volume.UID)
	patch := kube.AddFinalizer(a.Volume.UID, names.FinalizerVolume)
	if a.IfUnchanged {
		patch = kube.AddFinalizerUnchanged(a.Volume, names.FinalizerVolume)
	}
	err := c.patch(ctx, a.Volume, patch)
	if apierrors.IsNotFound(err) {
		return reclaim.Gone(), nil
	}
	return nil, err
}

// deleteVolume sends DeleteVolume and returns the verdict for the driver's response.
func (c *Controller) deleteVolume(ctx context.Context, s reclaim.Snapshot, a reclaim.DeleteVolume) next {
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "DeleteVolume", Volume: s.Volume.Name, Handle: a.Handle, Timeout: c.Timeout, Secret: a.Secret,
		Absent: csirpc.CallWithoutSecret, Migrated: s.InTree,
		Check: func(ctx context.Context) error { return c.findNew(ctx, s) },
		Send: func(ctx context.Context, secrets map[string]string) error {
			_, err := c.CSI.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: a.Handle, Secrets: secrets})
			return err
		},
	})
	switch {
	case failure == nil:
		return nil
	case errors.Is(failure.Cause, errNew):
		return reclaim.AfterNew(s)
	case failure.Step == csirpc.StepSecret:
		return reclaim.AfterSecret(a.Secret, reclaim.SecretFailure{
			Forbidden: apierrors.IsForbidden(failure.Cause), Message: failure.Cause.Error(),
		})
	}
	return verdict.Coded(reclaim.AfterDelete(a, failure.Failure), failure.CodeName())
}

var errNew = errors.New("another PersistentVolume got the volume meanwhile")

// findNew returns [errNew] if this process wrote another PersistentVolume with the handle after the
// snapshot was read. It runs when no other call for the handle can begin in this process.
func (c *Controller) findNew(ctx context.Context, s reclaim.Snapshot) error {
	cached, err := c.reader().cachedWithHandle(ctx, reclaim.Handle(s.Volume, c.Driver.Name))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(cached, func(pv *corev1.PersistentVolume) bool { return s.IsNew(pv.Name) }) {
		return errNew
	}
	return nil
}

// removeFinalizers removes finalizers after the volume was deleted in the backend. A failed request may
// have had its effect.
func (c *Controller) removeFinalizers(ctx context.Context, a reclaim.RemoveFinalizers) error {
	c.memory.reclaims(a.Volume.UID)
	err := c.patch(ctx, a.Volume, kube.DropFinalizer(a.Volume, a.Names...))
	if apierrors.IsNotFound(err) { // its deletion event may have come before
		c.memory.protects(a.Volume.UID)
		return nil
	}
	return err
}

// deleteObject deletes the object with this uid, and not a later one of its name (D-18). The API
// server's own watch cache may be stale: with the resourceVersion of our last write as a precondition it
// rejects the request early.
func (c *Controller) deleteObject(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		return nil
	}
	c.memory.reclaims(pv.UID)
	only := client.Preconditions{UID: &pv.UID}
	newest, err := kube.Get(ctx, c.Cached, client.ObjectKeyFromObject(pv), &corev1.PersistentVolume{})
	if err == nil && newest != nil && newest.UID == pv.UID && newest.ResourceVersion != pv.ResourceVersion {
		only.ResourceVersion = &newest.ResourceVersion
	}
	err = c.Writer.Delete(ctx, pv.DeepCopy(), only)
	if apierrors.IsConflict(err) {
		err = c.Writer.Delete(ctx, pv.DeepCopy(), client.Preconditions{UID: &pv.UID})
	}
	if apierrors.IsNotFound(err) {
		c.memory.protects(pv.UID) // its deletion event may have come before
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete PersistentVolume %q: %w", pv.Name, err)
	}
	return nil
}

func (c *Controller) patch(ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch) error {
	if err := c.Writer.Patch(ctx, pv.DeepCopy(), patch); err != nil {
		return fmt.Errorf("change the finalizer of PersistentVolume %q: %w", pv.Name, err)
	}
	return nil
}
