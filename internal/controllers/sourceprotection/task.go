package sourceprotection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/source"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// Gather implements reconcile.Task. A source that is in use is not read: each of its users enqueues
// it once more.
func (c *Controller) Gather(ctx context.Context, ref source.Ref) (source.Held, error) {
	h := source.Held{State: source.State{Ref: ref}, Driver: c.Driver}
	var err error
	if h.Users, err = c.users(ctx, ref); err != nil || h.Users.IsBusy() {
		return h, err
	}
	h.State, err = world.Source(ctx, c.Live, ref)
	return h, err
}

// users returns what keeps a source. The claims come from the cache: one that has begun is there, or
// counts as a call.
func (c *Controller) users(ctx context.Context, ref source.Ref) (u source.Users, err error) {
	u.Calls = c.count(ref)
	if u.Requests, err = c.Requests(ctx); err != nil {
		return u, err
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{world.IndexSource: ref.String()}); err != nil {
		return u, fmt.Errorf("read the claims with the source %s: %w", ref, err)
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; source.Waits(claim) && c.Asks(claim) {
			u.Claims = append(u.Claims, client.ObjectKeyFromObject(claim).String())
		}
	}
	return u, nil
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(h source.Held, _ time.Time) source.Verdict { return source.Release(h) }

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, h source.Held, action source.Action) (source.Verdict, error) {
	if _, is := action.(source.Unprotect); is {
		return c.unprotect(ctx, h)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// observe keeps in mind which sources may have the finalizer.
func (c *Controller) observe(ref source.Ref, _ source.Held, end source.Verdict, _ time.Duration) {
	switch end.Because().Reason {
	case verdict.SourceInUse:
		c.know(ref)
	case verdict.SourceReleased, verdict.SourceUnprotected, verdict.SourceNotOurs:
		c.forget(ref)
	default: // nothing is known that was not known before
	}
}

// About implements reconcile.Task.
func (c *Controller) About(ref source.Ref, _ source.Held) reconcile.About {
	return reconcile.About{Log: []any{telemetry.KeySource, ref.String()}}
}

func isRelease(v source.Verdict) bool {
	_, is := v.(verdict.Do[source.Action])
	return is
}
