package provision

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[provision.Action]

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s provision.Snapshot, action provision.Action) (next, error) {
	switch a := action.(type) {
	case provision.Record:
		err := c.Journal.Record(ctx, a.Entry)
		if errors.Is(err, intent.ErrFull) {
			return provision.JournalFull(err), nil
		}
		return nil, err
	case provision.ProtectSource:
		return nil, c.Sources.Protect(ctx, a, s.Key.UID)
	case provision.Resolve:
		return nil, c.resolve(ctx, s)
	case provision.Note:
		c.Journal.Note(s.Key.UID, a.Known)
		return nil, nil
	case provision.CreateVolume:
		return c.createVolume(ctx, s, a)
	case provision.DiscardVolume:
		return c.discardVolume(ctx, s, a)
	case provision.WriteVolume:
		return c.writeVolume(ctx, a.Volume)
	case provision.Reschedule:
		c.gaveBack(s.Key.UID)
		return nil, c.reschedule(ctx, s.Key, a.Claim.Annotations[names.AnnSelectedNode])
	case provision.Compete:
		c.memory.setOwnership(s.Key.UID, a.Ownership)
		return nil, nil
	case provision.CheckRoom:
		return c.checkRoom(ctx, s, a)
	case provision.OwnClaim:
		return c.ownClaim(ctx, s, a)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// createVolume sends the recorded request and returns the verdict for the driver's response.
func (c *Controller) createVolume(
	ctx context.Context, s provision.Snapshot, sent provision.CreateVolume,
) (next, error) {
	var response *csi.CreateVolumeResponse
	if provision.LacksKeys(s) {
		c.warnOfNoKeys(ctx)
	}
	ref := sent.Secrets.Of(secretref.Provisioner)
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "CreateVolume", Volume: sent.Request.GetName(), Timeout: c.Timeout, Secret: ref,
		Migrated: s.InTree != "",
		Fence: func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			return c.Journal.Hold(ctx, s.Key.UID)
		},
		Send: func(ctx context.Context, secrets map[string]string) (err error) {
			if response, err = c.CSI.CreateVolume(ctx, withSecrets(sent.Request, secrets)); err != nil {
				return err
			}
			return c.keep(s.Key.UID, sent.Request.GetName(), response.GetVolume().GetVolumeId())
		},
	})
	if failure != nil && failure.Step != csirpc.StepSent && failure.Step != csirpc.StepLock {
		return notSent(s, ref, failure), nil
	}
	answer := provision.Answer{Volume: response.GetVolume(), Failure: failure.Answer()}
	return coded(provision.AfterCreate(s, sent, answer), failure), nil
}

// notSent returns the verdict after CreateVolume that was not sent.
func notSent(s provision.Snapshot, ref types.NamespacedName, failure *csirpc.Failure) next {
	if failure.Step != csirpc.StepSecret {
		return provision.NotSent(s, failure.Cause)
	}
	if unfit, is := errors.AsType[kube.UnfitSecretError](failure.Cause); is {
		return provision.AfterUnfitSecret(s, ref, unfit.Key)
	}
	secret, err := SecretAccess(ref, failure.Cause)
	if err != nil {
		return provision.NotSent(s, err)
	}
	return provision.AfterSecret(s, ref, secret)
}

// keep blocks DeleteVolume for the returned handle until the outcome of the PersistentVolume's
// write is known, or the run ends without a write. The error says that a DeleteVolume call for the
// handle is in flight already.
func (c *Controller) keep(claim types.UID, name, handle string) error {
	end, err := c.Calls.LockHandle(name, handle)
	if err == nil {
		c.release(claim)
		c.memory.edit(claim, func(k *known) { k.unblock, k.unsure = end, false })
	}
	return err
}

// release ends the block of keep.
func (c *Controller) release(claim types.UID) {
	var end func()
	c.memory.edit(claim, func(k *known) { end, k.unblock, k.unsure = k.unblock, nil, false })
	if end != nil {
		end()
	}
}

// ended runs at the end of each run of a claim. A handle whose PersistentVolume may have been
// written stays blocked until a later run has read it; the journal entry, which stays unresolved,
// causes that run.
func (c *Controller) ended(claim types.UID) {
	if _, open := c.Journal.Pending(claim); !c.memory.get(claim).unsure || !open {
		c.release(claim)
	}
	c.Journal.Done(claim)
	c.Sources.Done(claim)
}

// errNeeded ends a DeleteVolume call whose check found a PersistentVolume that needs the volume.
var errNeeded = errors.New("the volume is needed")

// discardVolume deletes a volume that no claim wants. Its handle is recorded before the call, so that
// a new leader can repeat it: CreateVolume, which would return the handle again, may be refused when
// the claim is gone. Like CreateVolume the call is fenced: it ends before another leader may find the
// volume and use it. The check runs when no request of this
// process can be answered with the volume any more (D-37).
func (c *Controller) discardVolume(ctx context.Context, s provision.Snapshot, a provision.DiscardVolume) (next, error) {
	if err := c.Journal.Discard(ctx, s.Key.UID, a.Handle); err != nil {
		return nil, err
	}
	c.release(s.Key.UID)
	var needed next
	failure := c.caller.Do(ctx, csirpc.Call{
		Method: "DeleteVolume", Volume: a.Name, Handle: a.Handle, Timeout: c.Discard, Secret: a.Secret,
		Absent:   csirpc.CallWithoutSecret,
		Migrated: s.InTree != "",
		Check: func(ctx context.Context) (err error) {
			if needed, err = c.whoNeeds(ctx, s, a); err == nil && needed != nil {
				return errNeeded
			}
			return err
		},
		Fence: func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			return c.Journal.Hold(ctx, s.Key.UID)
		},
		Send: func(ctx context.Context, secrets map[string]string) error {
			_, err := c.CSI.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: a.Handle, Secrets: secrets})
			return err
		},
	})
	switch {
	case failure == nil:
		return nil, nil
	case needed != nil:
		return needed, nil
	case failure.Step == csirpc.StepSecret:
		secret, err := SecretAccess(a.Secret, failure.Cause)
		if err != nil {
			return nil, err
		}
		return provision.AfterDiscardSecret(a, secret), nil
	case failure.Step != csirpc.StepSent && failure.Step != csirpc.StepLock:
		return nil, failure.Cause
	}
	return coded(provision.AfterDiscard(a.Handle, failure.Failure), failure), nil
}

// whoNeeds returns, from live reads, the PersistentVolumes that need the volume: first those with
// the same handle, which takes longer, then the one with the name of the request.
func (c *Controller) whoNeeds(
	ctx context.Context, s provision.Snapshot, a provision.DiscardVolume,
) (kept next, err error) {
	sharing, err := c.Sharing(ctx, a.Handle)
	if err != nil {
		return nil, err
	}
	now, err := kube.Get(ctx, c.Live, client.ObjectKey{Name: a.Name}, &corev1.PersistentVolume{})
	if err != nil {
		return nil, err
	}
	return provision.IsNeeded(s, a, now, sharing), nil
}

// coded adds the code of the driver's answer to the log line.
func coded(v next, failure *csirpc.Failure) next {
	if failure == nil {
		return v
	}
	return verdict.Coded(v, failure.CodeName())
}

// writeVolume creates the PersistentVolume. Without an answer, or when the name is taken,
// DeleteVolume stays blocked for the handle.
func (c *Controller) writeVolume(ctx context.Context, want *corev1.PersistentVolume) (next, error) {
	claim := want.Spec.ClaimRef.UID
	made := want.DeepCopy()
	c.Tracing.Carry(ctx, made)
	err := c.Writer.Create(ctx, made)
	if err == nil {
		c.release(claim)
		c.memory.setProvisioned(claim)
		return nil, nil
	}
	written := provision.Written{
		Message: err.Error(), Reason: apierrors.ReasonForError(err), Refused: kube.IsRefusal(err),
	}
	if written.IsUnconfirmed() {
		c.memory.edit(claim, func(k *known) { k.unsure = true })
	}
	if apierrors.IsAlreadyExists(err) {
		if written.Existing, err = kube.Get(ctx, c.Live, client.ObjectKeyFromObject(want),
			&corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
		c.release(claim)
	}
	return provision.AfterWrite(want, written), nil
}

// reschedule removes the selected node from the claim. It writes the claim as the API server has
// it, since the cached object is trimmed. Upstream's role allows update and not patch (RB-2).
func (c *Controller) reschedule(ctx context.Context, key provision.Key, node string) error {
	claim, err := ClaimOf(ctx, c.Live, key)
	if err != nil {
		return err
	}
	changed, ok := provision.WithoutNode(claim, node)
	if !ok {
		return nil
	}
	if err = c.Writer.Update(ctx, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the selected node from claim %s: %w", key, err)
	}
	return nil
}
