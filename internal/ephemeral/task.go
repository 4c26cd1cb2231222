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

// Read implements reconcile.Reader: the claim is what a decision asks for.
func (c *Controller) Read(
	ctx context.Context, s ephemeral.Snapshot, _ []verdict.Ref,
) (_ ephemeral.Snapshot, err error) {
	s.IsLive = true
	s.Claim, err = readClaim(ctx, c.Live, s)
	return s, err
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s ephemeral.Snapshot, a ephemeral.Action) (next, error) {
	err := c.Writer.Create(ctx, a.Create.DeepCopy())
	if err == nil {
		c.Created.Attempted(nil)
		return nil, nil
	}
	after := ephemeral.AfterCreate(s, a.Create.Name, ephemeral.CreateFailure{
		Exists: apierrors.IsAlreadyExists(err), Message: err.Error(),
	})
	if _, failed := after.(verdict.Refuse[ephemeral.Action]); failed {
		c.Created.Attempted(err)
	}
	return after, nil
}

// About implements reconcile.Task.
func (c *Controller) About(key ephemeral.Key, s ephemeral.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyPod, podKey(key).String(), "podVolume", key.Volume}}
	if s.Pod != nil {
		about.Object = s.Pod
	}
	return about
}
