package provision

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// checkRoom calls GetCapacity until one topology has room (N-6).
func (c *Controller) checkRoom(ctx context.Context, s provision.Snapshot, check provision.CheckRoom) (next, error) {
	for _, request := range check.Requests {
		var response *csi.GetCapacityResponse
		failure := c.caller.Do(ctx, csirpc.Call{
			Method: "GetCapacity", Volume: s.Key.String(), Timeout: c.Timeout,
			Send: func(ctx context.Context, _ map[string]string) (err error) {
				response, err = c.CSI.GetCapacity(ctx, request)
				return err
			},
		})
		if failure != nil {
			logr.FromContextOrDiscard(ctx).Info("the driver does not say how much room there is; the claim is taken "+
				"without that",
				telemetry.KeyClaim, s.Key.String(), "problem", failure.Words())
			return nil, ctx.Err()
		}
		if response.GetAvailableCapacity() >= check.Bytes {
			return nil, nil
		}
	}
	return provision.AfterNoRoom(s, c.Clock.Now()), nil
}

// ownClaim writes the claim with this node.
func (c *Controller) ownClaim(ctx context.Context, s provision.Snapshot, own provision.OwnClaim) (next, error) {
	err := c.Writer.Update(ctx, own.Claim.DeepCopy())
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return provision.AfterLost(s, c.Clock.Now()), nil
	case err != nil:
		return nil, fmt.Errorf("take claim %s for node %s: %w", s.Key, c.Options.Node.Name, err)
	}
	return nil, nil
}

// gaveBack counts a failed attempt for a claim that this node gave back, so that it waits longer
// than nodes with capacity (N-9).
func (c *Controller) gaveBack(uid types.UID) {
	if c.Options.Node.Name == "" {
		return
	}
	c.memory.edit(uid, func(k *known) { k.ownership = provision.Ownership{Attempts: k.ownership.Attempts + 1} })
}

// isElsewhere reports whether another node is selected for the claim.
func (c *Controller) isElsewhere(claim *corev1.PersistentVolumeClaim) bool {
	selected := claim.Annotations[names.AnnSelectedNode]
	return c.Options.Node.Name != "" && selected != "" && selected != c.Options.Node.Name
}
