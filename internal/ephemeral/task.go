package ephemeral

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[ephemeral.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key ephemeral.Key) (ephemeral.Snapshot, error) {
	return Gather(ctx, c.Cached, key)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s ephemeral.Snapshot, _ time.Time) next { return ephemeral.Decide(s) }

// Apply implements reconcile.Task. A claim that exists already shows that the cache is stale: the
// claim is read from the API server and the decision is made again.
func (c *Controller) Apply(ctx context.Context, s ephemeral.Snapshot, a ephemeral.Action) (next, error) {
	err := c.Writer.Create(ctx, a.Create.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		found, readErr := ReadClaim(ctx, c.Live, s)
		if readErr != nil {
			return nil, readErr
		}
		if found != nil {
			s.Claim = found
			return ephemeral.Decide(s), nil
		}
	}
	c.Created.Attempted(err)
	if err != nil {
		return ephemeral.AfterCreate(s, a.Create.Name, err.Error()), nil
	}
	return nil, nil
}

// About implements reconcile.Task.
func (c *Controller) About(key ephemeral.Key, s ephemeral.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyPod, podKey(key).String(), "podVolume", key.Volume}}
	if s.Pod != nil {
		about.Object = s.Pod
	}
	return about
}
