package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
)

type next = verdict.Verdict[provision.Action]

// Apply implements loop.Task.
func (c *Controller) Apply(ctx context.Context, s provision.Snapshot, action provision.Action) (next, error) {
	switch a := action.(type) {
	case provision.Record:
		return nil, c.Journal.Record(ctx, a.Entry)
	case provision.Settle:
		return nil, c.Journal.Settle(ctx, s.Key.UID)
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
		return nil, c.reschedule(ctx, s.Key, a.Claim.Annotations[names.AnnSelectedNode])
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// createVolume knows of everything that can go wrong before the call that nothing was sent.
func (c *Controller) createVolume(ctx context.Context, s provision.Snapshot, sent provision.CreateVolume) (next, error) {
	release, err := c.slot(ctx)
	if err != nil {
		return provision.NotSent(s, err), nil
	}
	defer release()
	ref := sent.Secrets.Of(secretref.Provisioner)
	secrets, access, err := c.readSecret(ctx, ref)
	if unfit, is := errors.AsType[kube.UnfitSecretError](err); is {
		return provision.AfterUnfitSecret(s, ref, unfit.Key), nil
	}
	if err != nil {
		return provision.NotSent(s, err), nil
	}
	if access != provision.Readable {
		return provision.AfterSecret(s, ref, access), nil
	}
	ctx, cancel, err := c.Journal.Hold(ctx, s.Key.UID)
	if err != nil {
		return provision.NotSent(s, err), nil
	}
	defer cancel()
	ctx, done := c.call(ctx, "CreateVolume", c.Timeout)
	defer done()
	var response *csi.CreateVolumeResponse
	end, err := c.Calls.Begin("CreateVolume", sent.Request.GetName(), "")
	if err == nil {
		defer end()
		response, err = c.CSI.CreateVolume(ctx, withSecrets(sent.Request, secrets))
	}
	if err == nil {
		err = c.keep(s.Key.UID, sent.Request.GetName(), response.GetVolume().GetVolumeId())
	}
	answer := answerOf(err, secrets)
	answer.Volume = response.GetVolume()
	return coded(provision.AfterCreate(s, sent, answer), answer), nil
}

// answered is a volume that a call for a claim was answered with, for as long as nobody may delete it.
type answered struct {
	end    func()
	unsure bool // whether its PersistentVolume is written, since that had no answer
}

// keep has nobody delete what a call was answered with, until it is known whether its PersistentVolume is written, or the run has ended
// without an attempt. That nobody has begun to is part of the answer.
func (c *Controller) keep(claim types.UID, name, handle string) error {
	end, err := c.Calls.Got(name, handle)
	if err == nil {
		c.letGo(claim)
		c.kept.Store(claim, &answered{end: end})
	}
	return err
}

func (c *Controller) letGo(claim types.UID) {
	if a, ok := c.kept.LoadAndDelete(claim); ok {
		a.(*answered).end()
	}
}

// doubt says that the PersistentVolume may be written or not.
func (c *Controller) doubt(claim types.UID) {
	if a, ok := c.kept.Load(claim); ok {
		a.(*answered).unsure = true // the runs of a claim follow each other
	}
}

// ended is told of the end of each run. What may be written is kept until a later run has looked, for which its request stays on record.
func (c *Controller) ended(claim types.UID) {
	a, ok := c.kept.Load(claim)
	if _, open := c.Journal.Pending(claim); !ok || !a.(*answered).unsure || !open {
		c.letGo(claim)
	}
	c.Journal.Done(claim)
}

// discardVolume goes without a secret that does not exist, as deletion does (D-15): whether it is needed, the driver knows. Like the call
// that made the volume it ends before a next holder of the journal finds the volume, and may want it. Who needs the volume is asked before
// that, since it takes a while, and when nobody else can be answered with it any more.
func (c *Controller) discardVolume(ctx context.Context, s provision.Snapshot, a provision.DiscardVolume) (next, error) {
	secrets, access, err := c.readSecret(ctx, a.Secret)
	if err == nil && access == provision.Forbidden {
		err = fmt.Errorf("secret %q for deletion may not be read", a.Secret)
	}
	if err != nil {
		return nil, err
	}
	c.letGo(s.Key.UID)
	end, err := c.Calls.Begin("DeleteVolume", a.Name, a.Handle)
	if err != nil {
		return notDiscarded(a, answerOf(err, secrets)), nil
	}
	defer end()
	if kept, err := c.whoNeeds(ctx, s, a); kept != nil || err != nil {
		return kept, err
	}
	release, err := c.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel, err := c.Journal.Hold(ctx, s.Key.UID)
	if err != nil {
		return nil, err
	}
	defer cancel()
	ctx, done := c.call(ctx, "DeleteVolume", c.Discard)
	defer done()
	if _, err = c.CSI.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: a.Handle, Secrets: secrets}); err == nil {
		return nil, nil
	}
	return notDiscarded(a, answerOf(err, secrets)), nil
}

func notDiscarded(a provision.DiscardVolume, answer provision.Answer) next {
	return coded(provision.AfterDiscard(a.Handle, answer), answer)
}

// whoNeeds is asked when nobody else can be answered with the volume any more. It takes longer to find out who shares it than who has it under
// the name of the request.
func (c *Controller) whoNeeds(ctx context.Context, s provision.Snapshot, a provision.DiscardVolume) (kept next, err error) {
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

// answerOf is the last place that knows the secrets of a call, so what the driver said leaves it without them.
func answerOf(err error, secrets map[string]string) provision.Answer {
	var a provision.Answer
	a.Code, _, a.Foreign = csirpc.Outcome(err)
	a.Message = csirpc.Words(err, secrets)
	return a
}

// coded says in the log which code the driver answered with.
func coded(v next, answer provision.Answer) next {
	if answer.Code == codes.OK {
		return v
	}
	return verdict.Coded(v, answer.Code.String())
}

// slot waits while as many calls are under way as there may be.
func (c *Controller) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for one of %d calls to the driver to end: %w", c.Workers, ctx.Err())
	}
}

// call bounds one call to the driver and counts it while it runs.
func (c *Controller) call(ctx context.Context, method string, timeout time.Duration) (context.Context, func()) {
	inFlight := c.InFlight.WithLabelValues(method)
	inFlight.Inc()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return ctx, func() { cancel(); inFlight.Dec() }
}

// writeVolume leaves it open whether the volume may be deleted by others while nobody knows whether it is written.
func (c *Controller) writeVolume(ctx context.Context, want *corev1.PersistentVolume) (next, error) {
	claim, created := want.Spec.ClaimRef.UID, want.DeepCopy()
	err := c.Writer.Create(ctx, created)
	if err == nil {
		c.Volumes.Wrote(created)
		c.letGo(claim)
		c.finished.add(claim)
		return nil, nil
	}
	if !kube.IsRefusal(err) || apierrors.IsAlreadyExists(err) {
		c.doubt(claim)
	}
	written := provision.Written{
		Message:  err.Error(),
		Rejected: apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err),
	}
	if apierrors.IsAlreadyExists(err) {
		if written.Existing, err = kube.Get(ctx, c.Live, client.ObjectKeyFromObject(want), &corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
		c.letGo(claim)
	}
	return provision.AfterWrite(want, written), nil
}

// reschedule writes the claim as the API server has it, since the one in memory is trimmed; upstream's role allows update and
// not patch (RB-2). Another node, which was selected meanwhile, stays.
func (c *Controller) reschedule(ctx context.Context, key provision.Key, node string) error {
	claim, err := c.claim(ctx, c.Live, key)
	if err != nil || claim == nil || claim.Annotations[names.AnnSelectedNode] != node {
		return err
	}
	delete(claim.Annotations, names.AnnSelectedNode)
	if err := c.Writer.Update(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take back the node selection of claim %s: %w", key, err)
	}
	return nil
}
