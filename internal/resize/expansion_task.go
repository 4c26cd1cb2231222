package resize

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type nextExpansion = verdict.Verdict[resizing.ExpansionAction]

// Gather implements reconcile.Task.
func (c *ExpansionController) Gather(ctx context.Context, key resizing.Key) (resizing.ExpansionSnapshot, error) {
	return GatherExpansion(ctx, c.Cached, key)
}

// Decide implements reconcile.Task.
func (c *ExpansionController) Decide(s resizing.ExpansionSnapshot, _ time.Time) nextExpansion {
	return resizing.DecideExpansion(s)
}

// Apply implements reconcile.Task. The annotation is written with the status, as upstream does.
func (c *ExpansionController) Apply(
	ctx context.Context, s resizing.ExpansionSnapshot, a resizing.ExpansionAction,
) (nextExpansion, error) {
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
func (c *ExpansionController) About(key resizing.Key, s resizing.ExpansionSnapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String(), telemetry.KeySize, key.Size}}
	if s.Claim != nil {
		about.Object = s.Claim
	}
	return about
}
