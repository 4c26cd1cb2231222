package reclaim

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Decide implements reconcile.Task.
func (c *Controller) Decide(s reclaim.Snapshot, _ time.Time) verdict.Verdict[reclaim.Action] {
	return reclaim.Decide(s)
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
	case reclaim.ListSameHandle:
		return c.listSameHandle(ctx, s)
	case reclaim.DeleteVolume:
		return c.deleteVolume(ctx, s, a), nil
	case reclaim.DeleteObject:
		return nil, c.deleteObject(ctx, a.Volume)
	case reclaim.AddFinalizer:
		return c.protect(ctx, a)
	case reclaim.RemoveFinalizers:
		return nil, c.removeFinalizers(ctx, a.Volume, a.Names)
	case reclaim.RemoveFinalizerIfRetained:
		return nil, c.removeFinalizer(ctx, a.Volume, kube.DropFinalizerUnderPolicy(a.Volume, names.FinalizerVolume))
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// protect ends the run if the volume does not exist: it was reclaimed, most likely by us (H-18).
func (c *Controller) protect(ctx context.Context, a reclaim.AddFinalizer) (next, error) {
	c.finalizersRemoved.remove(a.Volume)
	patch := kube.AddFinalizer(a.Volume.UID, names.FinalizerVolume)
	if a.IfUnchanged {
		patch = kube.AddFinalizerUnchanged(a.Volume, names.FinalizerVolume)
	}
	_, err := c.patch(ctx, a.Volume, patch)
	if apierrors.IsNotFound(err) {
		return reclaim.Gone(), nil
	}
	return nil, err
}

// listSameHandle reads live which PersistentVolumes have the same handle. An administrator may have
// retained the volume during the list, so the volume and its claim are read again after it.
func (c *Controller) listSameHandle(ctx context.Context, s reclaim.Snapshot) (next, error) {
	all, err := c.sharing(ctx, reclaim.Handle(s.Volume, c.Driver.Name), s.Name, c.retries.Get(s.Name).Failed > 0)
	if err != nil {
		return nil, err
	}
	if s.Volume, err = c.unchanged(ctx, s.Volume); err != nil {
		return nil, err
	}
	if s, err = GatherAfterLook(ctx, c.readers(), s, all, c.memory()); err != nil {
		return nil, err
	}
	return reclaim.AfterList(s), nil
}

// unchanged returns the live volume if it is the one in the snapshot, apart from writes of this
// process since.
func (c *Controller) unchanged(
	ctx context.Context, decided *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	version := decided.ResourceVersion
	if written := c.written(decided); written != nil {
		version = *written
	}
	now, err := kube.Get(ctx, c.Live, client.ObjectKeyFromObject(decided), &corev1.PersistentVolume{})
	if err != nil {
		return nil, err
	}
	if now == nil || now.UID != decided.UID || now.ResourceVersion != version {
		return nil, fmt.Errorf("PersistentVolume %q has changed since it was decided on", decided.Name)
	}
	return now, nil
}

// deleteVolume sends DeleteVolume and returns the verdict for the driver's response.
func (c *Controller) deleteVolume(ctx context.Context, s reclaim.Snapshot, a reclaim.DeleteVolume) next {
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "DeleteVolume", Volume: s.Volume.Name, Handle: a.Handle, Timeout: c.Timeout, Secret: a.Secret,
		Absent: csirpc.CallWithoutSecret, Migrated: s.InTree,
		Check: func(ctx context.Context) error { return c.hasNewSameHandle(ctx, s) },
		Send: func(ctx context.Context, secrets map[string]string) error {
			_, err := c.CSI.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: a.Handle, Secrets: secrets})
			return err
		},
	})
	switch {
	case failure == nil:
		return nil
	case failure.Step == csirpc.StepSecret:
		return reclaim.AfterSecret(a.Secret, reclaim.SecretFailure{
			Forbidden: apierrors.IsForbidden(failure.Cause), Message: failure.Cause.Error(),
		})
	}
	return verdict.Coded(reclaim.AfterDelete(a, failure.Failure), failure.CodeName())
}

// hasNewSameHandle returns an error with the code Aborted if this process wrote another
// PersistentVolume with the handle after the snapshot was read; the deletion is then decided again.
// It makes a live read only for such PersistentVolumes.
func (c *Controller) hasNewSameHandle(ctx context.Context, s reclaim.Snapshot) error {
	others, err := OthersWithHandle(ctx, c.Cached, s.Volume, c.memory())
	if err != nil {
		return err
	}
	unknown := reclaim.NotInSnapshot(s, NamesOf(others))
	now, err := WithHandle(ctx, c.allVolumes(), c.Driver.Name, reclaim.Handle(s.Volume, c.Driver.Name), unknown)
	if err != nil || len(now) == 0 {
		return err
	}
	return csirpc.Aborted("PersistentVolume %s got the volume meanwhile", now[0].Name)
}

// deleteObject deletes the object with this uid, and not a later one of its name (D-18). It stores
// the deletion first: the informer may show it before the response arrives.
func (c *Controller) deleteObject(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		return nil
	}
	c.finalizersRemoved.deleting(pv)
	err := c.Writer.Delete(ctx, pv.DeepCopy(), client.Preconditions{UID: &pv.UID, ResourceVersion: c.written(pv)})
	if apierrors.IsConflict(err) {
		err = c.Writer.Delete(ctx, pv.DeepCopy(), client.Preconditions{UID: &pv.UID})
	}
	if err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) {
		c.finalizersRemoved.remove(pv) // its deletion event may have come before
		return nil
	}
	c.finalizersRemoved.markUncertain(pv)
	return fmt.Errorf("delete PersistentVolume %q: %w", pv.Name, err)
}

// written returns the resourceVersion of our last write if the informer does not show it yet; nil
// otherwise. The API server's own watch cache may be stale as well: with the version as a
// precondition it rejects the request early.
func (c *Controller) written(pv *corev1.PersistentVolume) *string {
	newest, _, err := c.Volumes.Read(
		client.ObjectKeyFromObject(pv), func() (*corev1.PersistentVolume, bool, error) { return pv, true, nil },
	)
	if err != nil || newest.UID != pv.UID || newest.ResourceVersion == pv.ResourceVersion {
		return nil
	}
	return &newest.ResourceVersion
}

// removeFinalizers removes finalizers after the volume was deleted in the backend.
func (c *Controller) removeFinalizers(ctx context.Context, pv *corev1.PersistentVolume, finalizers []string) error {
	return c.removeFinalizer(ctx, pv, kube.DropFinalizer(pv, finalizers...))
}

// removeFinalizer stores the removal first, as deleteObject does.
func (c *Controller) removeFinalizer(ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch) error {
	c.finalizersRemoved.add(pv)
	version, err := c.patch(ctx, pv, patch)
	switch {
	case apierrors.IsNotFound(err): // the object is deleted
		c.finalizersRemoved.remove(pv)
		return nil
	case err != nil:
		c.finalizersRemoved.markUncertain(pv)
		return err
	}
	c.finalizersRemoved.was(pv, version)
	return nil
}

// patch changes the finalizer and returns the resourceVersion of the response.
func (c *Controller) patch(
	ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch,
) (version string, err error) {
	changed := pv.DeepCopy()
	if err = c.Writer.Patch(ctx, changed, patch); err != nil {
		return "", fmt.Errorf("change the finalizer of PersistentVolume %q: %w", pv.Name, err)
	}
	c.Volumes.Wrote(changed)
	return changed.ResourceVersion, nil
}
