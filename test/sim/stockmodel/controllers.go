package stockmodel

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// Controllers is a model of the stock controllers.
type Controllers struct {
	Server *apiserver.Server
	Client client.Client
}

// The pauses before and between writes are unlike those of any other client, so that no two things
// happen at the same instant.
const (
	reaction = 730 * time.Microsecond
	pace     = 310 * time.Microsecond
)

// Run works until ctx ends.
func (c *Controllers) Run(ctx context.Context) { run(ctx, c.Server, c.step) }

// run repeats step after each change of the API server's objects, until it has nothing to do.
func run(ctx context.Context, server *apiserver.Server, step func(context.Context) bool) {
	changed := make(chan struct{}, 1)
	server.Listen(changed)
	changed <- struct{}{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		time.Sleep(reaction)
		for ctx.Err() == nil && step(ctx) {
			time.Sleep(pace)
		}
	}
}

// step does the first write that is due, and reports whether there was one.
func (c *Controllers) step(ctx context.Context) bool {
	for _, claim := range apiserver.Objects(c.Server, &corev1.PersistentVolumeClaim{}) {
		if c.claim(ctx, claim) {
			return true
		}
	}
	for _, pv := range apiserver.Objects(c.Server, &corev1.PersistentVolume{}) {
		if c.volume(ctx, pv) {
			return true
		}
	}
	return false
}

func (c *Controllers) claim(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	switch {
	case claim.DeletionTimestamp != nil && dropFinalizer(claim, names.FinalizerPVCProtection): // there are no pods
		return c.update(ctx, claim)
	case claim.Spec.VolumeName == "":
		return c.unbound(ctx, claim)
	case claim.Status.Phase == corev1.ClaimPending && c.boundTo(ctx, claim):
		claim.Status.Phase = corev1.ClaimBound
		return c.Client.Status().Update(ctx, claim) == nil
	}
	return false
}

// boundTo reports whether the claim's volume is for this very claim.
func (c *Controllers) boundTo(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	var pv corev1.PersistentVolume
	err := c.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &pv)
	return err == nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}

// unbound binds the volume that was provisioned for the claim, or sets the provisioner's
// annotation.
func (c *Controllers) unbound(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	for _, pv := range apiserver.Objects(c.Server, &corev1.PersistentVolume{}) {
		if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID || pv.DeletionTimestamp != nil {
			continue
		}
		if pv.Status.Phase != corev1.VolumeBound {
			pv.Status.Phase = corev1.VolumeBound
			return c.Client.Status().Update(ctx, pv) == nil
		}
		claim.Spec.VolumeName = pv.Name
		annotate(claim, names.AnnBindCompleted, "yes")
		return c.update(ctx, claim)
	}
	return c.ask(ctx, claim)
}

// ask sets the provisioner's annotation on the claim. With WaitForFirstConsumer it waits for the
// selected node.
func (c *Controllers) ask(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	var class storagev1.StorageClass
	if err := c.Client.Get(ctx, client.ObjectKey{Name: objects.ClaimClass(claim)}, &class); err != nil {
		return false
	}
	waits := *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if waits && claim.Annotations[names.AnnSelectedNode] == "" ||
		claim.Annotations[names.AnnStorageProvisioner] == class.Provisioner {
		return false
	}
	annotate(claim, names.AnnStorageProvisioner, class.Provisioner)
	annotate(claim, names.AnnBetaStorageProvisioner, class.Provisioner)
	return c.update(ctx, claim)
}

func (c *Controllers) volume(ctx context.Context, pv *corev1.PersistentVolume) bool {
	switch {
	case c.orphan(ctx, pv) && pv.Status.Phase != corev1.VolumeReleased && pv.Status.Phase != corev1.VolumeFailed:
		pv.Status.Phase = corev1.VolumeReleased
		return c.Client.Status().Update(ctx, pv) == nil
	case pv.DeletionTimestamp != nil && pv.Status.Phase != corev1.VolumeBound &&
		dropFinalizer(pv, names.FinalizerPVProtection):
		return c.update(ctx, pv)
	}
	return false
}

// orphan reports whether the very claim of the volume is gone.
func (c *Controllers) orphan(ctx context.Context, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return false
	}
	var claim corev1.PersistentVolumeClaim
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &claim)
	return apierrors.IsNotFound(err) || err == nil && claim.UID != ref.UID
}

func (c *Controllers) update(ctx context.Context, o client.Object) bool {
	return c.Client.Update(ctx, o) == nil
}

func annotate(o client.Object, key, value string) {
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	o.SetAnnotations(all)
}

// dropFinalizer reports whether there was something to drop.
func dropFinalizer(o client.Object, finalizer string) bool {
	before := o.GetFinalizers()
	after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
	o.SetFinalizers(after)
	return len(after) < len(before)
}
