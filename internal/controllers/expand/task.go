package expand

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/expansion"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

type next = verdict.Verdict[expansion.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key expansion.Key) (expansion.Snapshot, error) {
	return world.Expansion(ctx, c.Cached, key)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s expansion.Snapshot, _ time.Time) next { return expansion.Decide(s) }

// Apply implements reconcile.Task. The annotation is written with the status, as upstream does.
func (c *Controller) Apply(ctx context.Context, s expansion.Snapshot, a expansion.Action) (next, error) {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.Claim.UID, "annotations": map[string]string{names.AnnStorageResizer: a.NameResizer},
	}})
	if err != nil {
		return nil, err
	}
	err = c.Writer.Status().Patch(ctx, s.Claim.DeepCopy(), client.RawPatch(types.MergePatchType, raw))
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("name the resizer of claim %s: %w", s.Key, err)
	}
	return nil, nil
}

// About implements reconcile.Task.
func (c *Controller) About(key expansion.Key, s expansion.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String(), telemetry.KeySize, key.Size}}
	if s.Claim != nil {
		about.Object = s.Claim
	}
	return about
}
