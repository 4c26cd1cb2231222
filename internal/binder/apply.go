package binder

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[binding.Action]

// Apply implements reconcile.Task. After a write that the API server refuses as outdated, the decision is
// made again over what the API server has.
func (c *Controller) Apply(ctx context.Context, r *run, action binding.Action) (next, error) {
	if reserve, is := action.(binding.Reserve); is {
		return c.reserve(r, reserve), nil
	}
	err := c.do(ctx, action)
	c.measures.done(r.Snapshot, action, err)
	if err == nil || !isOutdated(err) {
		return nil, err
	}
	var then next
	r.Snapshot, then = binding.AfterRefusal(r.Snapshot, action, err.Error())
	return then, nil
}

// reserve holds the offered volume for the claim. When another claim was faster, the next best one
// is held, and it is decided again.
func (c *Controller) reserve(r *run, a binding.Reserve) next {
	held, affected := c.objectStore.reserve(a.Claim)
	c.enqueue(affected)
	if held == a.Volume.Name {
		return nil
	}
	return binding.ReadAgain(r.Snapshot)
}

// isOutdated finds the answers to a write whose precondition does not hold: the object is gone, has
// changed, or a test failed.
func isOutdated(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && binding.IsOutdated(answer.Status().Code)
}

func (c *Controller) do(ctx context.Context, action binding.Action) error {
	switch a := action.(type) {
	case binding.ClaimVolume:
		return c.claimVolume(ctx, a)
	case binding.Complete:
		return c.complete(ctx, a)
	case binding.SetClaimStatus:
		return c.setClaimStatus(ctx, a)
	case binding.SetVolumePhase:
		return c.setVolumePhase(ctx, a)
	case binding.Unbind:
		return c.patchVolume(ctx, a.Volume, kube.GiveVolumeBack(a.Volume, a.Whole, a.For))
	case binding.AssignClass:
		return c.patchClaim(ctx, a.Claim, kube.NameClass(a.Claim, a.Class))
	case binding.AskProvisioner:
		return c.askProvisioner(ctx, a)
	case binding.HandOver:
		c.HandOver.Give(a.Claim)
		return nil
	case binding.SetMigration:
		return c.setMigration(ctx, a)
	case binding.Tell:
		c.tell(a)
		return nil
	case binding.Reserve: // Apply does it
	}
	return fmt.Errorf("unknown action %T", action)
}

// claimVolume commits the choice (W1).
func (c *Controller) claimVolume(ctx context.Context, a binding.ClaimVolume) error {
	changed := volumeToPatch(a.Volume.Name)
	if err := c.Writer.Patch(ctx, changed, kube.TakeVolume(a.Volume, a.Claim, a.Mark)); err != nil {
		if !kube.IsRefusal(err) {
			c.objectStore.unanswered(a.Volume.Name)
		}
		return failed(changed, err)
	}
	c.enqueue(c.objectStore.commit(changed))
	return nil
}

// complete does W2 and W3 at once: they are about different objects.
func (c *Controller) complete(ctx context.Context, a binding.Complete) error {
	volume := func() error { return nil }
	if a.Volume != nil {
		volume = func() error {
			return c.patchVolumeStatus(
				ctx, a.Volume, kube.PhaseOfOwned(a.Volume, a.Owner, corev1.VolumeBound, ""),
			)
		}
	}
	if a.Claim == nil {
		return volume()
	}
	marked := make(chan error, 1)
	go func() { marked <- volume() }()
	err := c.patchClaim(ctx, a.Claim, kube.NameVolume(a.Claim, a.Name, a.Mark))
	return errors.Join(err, <-marked)
}

func (c *Controller) setClaimStatus(ctx context.Context, a binding.SetClaimStatus) error {
	if a.Status.Cleared {
		return c.patchClaimStatus(ctx, a.Claim, kube.ClearStatus(a.Claim, a.Status.Phase))
	}
	bound := kube.BoundClaim{
		AccessModes: a.Status.AccessModes, Capacity: a.Status.Capacity, Attributes: a.Status.Attributes,
	}
	if a.Status.Unused != nil {
		condition := *a.Status.Unused
		condition.LastTransitionTime = metav1.NewTime(c.Clock.Now())
		bound.Condition = &condition
	}
	return c.patchClaimStatus(ctx, a.Claim, kube.BindStatus(a.Claim, a.Volume, bound))
}

func (c *Controller) setVolumePhase(ctx context.Context, a binding.SetVolumePhase) error {
	if a.AsSeen {
		return c.patchVolumeStatus(ctx, a.Volume, kube.PhaseUnchanged(a.Volume, a.Phase, a.Message))
	}
	phase := kube.PhaseOfOwned(a.Volume, a.Volume.Spec.ClaimRef.UID, a.Phase, a.Message)
	return c.patchVolumeStatus(ctx, a.Volume, phase)
}

func (c *Controller) askProvisioner(ctx context.Context, a binding.AskProvisioner) error {
	err := c.patchClaim(ctx, a.Claim, kube.NameProvisioner(a.Claim, a.Driver))
	if err != nil && !isOutdated(err) {
		c.tell(binding.Tell{Claim: a.Claim, Finding: verdict.Because(
			verdict.ProvisionerNotAsked, "Error saving claim: %s", err.Error(),
		)})
	}
	return err
}

func (c *Controller) setMigration(ctx context.Context, a binding.SetMigration) error {
	if a.Volume != nil {
		return c.patchVolume(ctx, a.Volume, kube.NameMigration(a.Volume, a.Driver, a.Finalizers))
	}
	return c.patchClaim(ctx, a.Claim, kube.NameMigration(a.Claim, a.Driver, nil))
}

// Only the patch is sent, and the response is read into an empty object: the objects of the store
// are shared and trimmed.
func volumeToPatch(name string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	pv.Name = name
	return pv
}

func claimToPatch(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = key.Namespace, key.Name
	return claim
}

func (c *Controller) patchVolume(ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch) error {
	changed := volumeToPatch(pv.Name)
	if err := c.Writer.Patch(ctx, changed, patch); err != nil {
		return failed(changed, err)
	}
	c.enqueue(c.objectStore.wroteVolume(changed))
	return nil
}

// patchVolumeStatus writes the phase of a volume. Its events are emitted after the write.
func (c *Controller) patchVolumeStatus(ctx context.Context, pv *corev1.PersistentVolume, patch client.Patch) error {
	changed := volumeToPatch(pv.Name)
	if err := c.Writer.Status().Patch(ctx, changed, patch); err != nil {
		return failed(changed, err)
	}
	c.teller.Forget(pv.UID)
	c.enqueue(c.objectStore.wroteVolume(changed))
	return nil
}

func (c *Controller) patchClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, patch client.Patch) error {
	changed := claimToPatch(keyOf(claim))
	if err := c.Writer.Patch(ctx, changed, patch); err != nil {
		return failed(changed, err)
	}
	c.objectStore.ownClaims.Wrote(changed)
	return nil
}

func (c *Controller) patchClaimStatus(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, patch client.Patch,
) error {
	changed := claimToPatch(keyOf(claim))
	if err := c.Writer.Status().Patch(ctx, changed, patch); err != nil {
		return failed(changed, err)
	}
	c.objectStore.ownClaims.Wrote(changed)
	return nil
}

func failed(o client.Object, err error) error {
	return fmt.Errorf("write %T %q: %w", o, client.ObjectKeyFromObject(o), err)
}
