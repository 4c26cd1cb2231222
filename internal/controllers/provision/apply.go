package provision

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/csirpc"
)

type next = verdict.Verdict[provision.Action]

// Apply implements loop.Task.
func (c *Controller) Apply(ctx context.Context, s provision.Snapshot, action provision.Action) (next, error) {
	switch a := action.(type) {
	case provision.Record:
		return nil, c.Journal.Record(ctx, a.Entry)
	case provision.Settle:
		return nil, c.Journal.Settle(ctx, s.Key.UID)
	case provision.CreateVolume:
		return c.createVolume(ctx, s, a.Request), nil
	case provision.DiscardVolume:
		return c.discardVolume(ctx, a.Handle), nil
	case provision.WriteVolume:
		return c.writeVolume(ctx, a.Volume)
	case provision.Reschedule:
		return nil, c.reschedule(ctx, s.Key)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

func (c *Controller) createVolume(ctx context.Context, s provision.Snapshot, request *csi.CreateVolumeRequest) next {
	ctx, done := c.call(ctx, "CreateVolume")
	defer done()
	response, err := c.CSI.CreateVolume(ctx, request)
	answer := provision.Answer{Volume: response.GetVolume()}
	answer.Code, answer.Message, answer.Foreign = csirpc.Outcome(err)
	return coded(provision.AfterCreate(s, request, answer), answer)
}

func (c *Controller) discardVolume(ctx context.Context, handle string) next {
	ctx, done := c.call(ctx, "DeleteVolume")
	defer done()
	_, err := c.CSI.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: handle})
	if err == nil {
		return nil
	}
	answer := provision.Answer{}
	answer.Code, answer.Message, answer.Foreign = csirpc.Outcome(err)
	return coded(provision.AfterDiscard(handle, answer), answer)
}

// coded says in the log which code the driver answered with.
func coded(v next, answer provision.Answer) next {
	if answer.Code == codes.OK {
		return v
	}
	return verdict.Coded(v, answer.Code.String())
}

// call bounds one call to the driver and counts it while it runs.
func (c *Controller) call(ctx context.Context, method string) (context.Context, func()) {
	inFlight := c.InFlight.WithLabelValues(method)
	inFlight.Inc()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	return ctx, func() { cancel(); inFlight.Dec() }
}

func (c *Controller) writeVolume(ctx context.Context, want *corev1.PersistentVolume) (next, error) {
	created := want.DeepCopy()
	err := c.Writer.Create(ctx, created)
	if err == nil {
		c.Volumes.Wrote(created)
		c.finished.add(want.Spec.ClaimRef.UID)
		return nil, nil
	}
	written := provision.Written{
		Message:  err.Error(),
		Rejected: apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err),
	}
	if apierrors.IsAlreadyExists(err) {
		if written.Existing, err = get(ctx, c.Live, client.ObjectKeyFromObject(want), &corev1.PersistentVolume{}); err != nil {
			return nil, err
		}
	}
	return provision.AfterWrite(want, written), nil
}

// reschedule writes the claim as the API server has it, since the one in memory is trimmed; upstream's role allows update and
// not patch (RB-2).
func (c *Controller) reschedule(ctx context.Context, key provision.Key) error {
	claim, err := c.claim(ctx, c.Live, key)
	if err != nil || claim == nil {
		return err
	}
	delete(claim.Annotations, names.AnnSelectedNode)
	if err := c.Writer.Update(ctx, claim); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take back the node selection of claim %s: %w", key, err)
	}
	return nil
}
