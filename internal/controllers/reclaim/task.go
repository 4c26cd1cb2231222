package reclaim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
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
	case reclaim.LookForTwins:
		return c.lookForTwins(ctx, s)
	case reclaim.DeleteVolume:
		return c.deleteVolume(ctx, s, a), nil
	case reclaim.DeleteObject:
		return nil, c.deleteObject(ctx, a.Volume)
	case reclaim.AddFinalizer:
		return c.protect(ctx, a)
	case reclaim.DropFinalizer:
		return nil, c.forsake(ctx, a.Volume, a.Names)
	case reclaim.LetGo:
		return nil, c.dropFinalizer(ctx, a.Volume, kube.DropFinalizerUnderPolicy(a.Volume, names.FinalizerVolume))
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// protect ends the run for a volume that is gone: it is dealt with, by us as like as not (H-18).
func (c *Controller) protect(ctx context.Context, a reclaim.AddFinalizer) (next, error) {
	c.released.remove(a.Volume)
	patch := kube.AddFinalizer(a.Volume.UID, names.FinalizerVolume)
	if a.AsSeen {
		patch = kube.AddFinalizerUnchanged(a.Volume, names.FinalizerVolume)
	}
	_, err := c.patch(ctx, a.Volume, patch)
	if apierrors.IsNotFound(err) {
		return reclaim.Gone(), nil
	}
	return nil, err
}

// lookForTwins reads live which PersistentVolumes share the handle. That takes a while, in which an
// administrator may have retained the volume, so the volume and its claim are read once more after
// it.
func (c *Controller) lookForTwins(ctx context.Context, s reclaim.Snapshot) (next, error) {
	all, err := c.sharing(ctx, reclaim.Handle(s.Volume, c.Driver.Name), s.Name, c.retries.Get(s.Name).Failed > 0)
	if err != nil {
		return nil, err
	}
	if s.Volume, err = c.unchanged(ctx, s.Volume); err != nil {
		return nil, err
	}
	if s, err = world.ReclaimAfterLook(ctx, c.readers(), s, all, c.memory()); err != nil {
		return nil, err
	}
	return reclaim.AfterLook(s), nil
}

// unchanged is the volume as the API server has it, if that is as it was decided on, but for what
// this process wrote since.
func (c *Controller) unchanged(
	ctx context.Context,
	decided *corev1.PersistentVolume,
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

// deleteVolume sends DeleteVolume, and turns the driver's answer into the next verdict.
func (c *Controller) deleteVolume(ctx context.Context, s reclaim.Snapshot, a reclaim.DeleteVolume) next {
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "DeleteVolume", Volume: s.Volume.Name, Handle: a.Handle, Timeout: c.Timeout, Secret: a.Secret,
		Absent: csirpc.CallWithoutSecret, Migrated: s.InTree,
		Check: func(ctx context.Context) error { return c.gotAnother(ctx, s) },
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
	return verdict.Coded(reclaim.AfterDelete(a, reclaim.DeleteFailure{
		Code: failure.Code, Message: failure.Message, NoSecret: failure.NoSecret,
	}), failure.Code.String())
}

// gotAnother looks whether this process wrote another PersistentVolume with the handle after the
// snapshot was read. The error then has the code Aborted, and the deletion is decided again. It
// makes a live read only for such PersistentVolumes.
func (c *Controller) gotAnother(ctx context.Context, s reclaim.Snapshot) error {
	others, err := world.OthersWithHandle(ctx, c.Cached, s.Volume, c.memory())
	if err != nil {
		return err
	}
	unknown := reclaim.NewTwins(s, world.NamesOf(others))
	now, err := world.WithHandle(ctx, c.allVolumes(), c.Driver.Name, reclaim.Handle(s.Volume, c.Driver.Name), unknown)
	if err != nil || len(now) == 0 {
		return err
	}
	return csirpc.Aborted("PersistentVolume %s got the volume meanwhile", now[0].Name)
}

// deleteObject deletes this very object and not one that was created again under its name (D-18).
// It remembers first: the volume may be gone, and the watch may say so, before the answer is here.
func (c *Controller) deleteObject(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.DeletionTimestamp != nil {
		return nil
	}
	c.released.deleting(pv)
	err := c.Writer.Delete(ctx, pv.DeepCopy(), client.Preconditions{UID: &pv.UID, ResourceVersion: c.written(pv)})
	if apierrors.IsConflict(err) {
		err = c.Writer.Delete(ctx, pv.DeepCopy(), client.Preconditions{UID: &pv.UID})
	}
	if err == nil {
		return nil
	}
	if apierrors.IsNotFound(err) {
		c.released.remove(pv) // its deletion may have come through the watch before
		return nil
	}
	c.released.doubt(pv)
	return fmt.Errorf("delete PersistentVolume %q: %w", pv.Name, err)
}

// written is the resource version that our last write gave the volume, if the watch has not shown
// it yet. The API server's own cache may lag as well; told the version, it notices before it has
// done the work for nothing.
func (c *Controller) written(pv *corev1.PersistentVolume) *string {
	newest, _, err := c.Volumes.Read(
		client.ObjectKeyFromObject(pv),
		func() (*corev1.PersistentVolume, bool, error) { return pv, true, nil },
	)
	if err != nil || newest.UID != pv.UID || newest.ResourceVersion == pv.ResourceVersion {
		return nil
	}
	return &newest.ResourceVersion
}

// forsake drops finalizers of a volume that is deleted in the storage. It tries the form that takes
// the API server half the time, and that is refused if the object has changed since it was seen.
// One that got its finalizer only now has.
func (c *Controller) forsake(ctx context.Context, pv *corev1.PersistentVolume, finalizers []string) error {
	if slices.Contains(pv.Finalizers, names.FinalizerVolume) {
		err := c.dropFinalizer(ctx, pv, kube.DropFinalizerUnchanged(pv, finalizers...))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return c.dropFinalizer(ctx, pv, kube.DropFinalizer(pv, finalizers...))
}

// dropFinalizer remembers first, as deleteObject does.
func (c *Controller) dropFinalizer(ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch) error {
	c.released.add(pv)
	version, err := c.patch(ctx, pv, patch)
	switch {
	case apierrors.IsNotFound(err): // it needs no change
		c.released.remove(pv)
		return nil
	case err != nil:
		c.released.doubt(pv)
		return err
	}
	c.released.was(pv, version)
	return nil
}

// patch changes the finalizer, and returns the resource version in the answer.
func (c *Controller) patch(
	ctx context.Context,
	pv *corev1.PersistentVolume,
	patch client.Patch,
) (version string, err error) {
	changed := pv.DeepCopy()
	if err = c.Writer.Patch(ctx, changed, patch); err != nil {
		return "", fmt.Errorf("change the finalizer of PersistentVolume %q: %w", pv.Name, err)
	}
	c.Volumes.Wrote(changed)
	return changed.ResourceVersion, nil
}
