package sources

import (
	"context"
	"fmt"
	"time"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, ref source.Ref) (source.Held, error) {
	return c.reader().Gather(ctx, ref)
}

// Read implements reconcile.Reader.
func (c *Controller) Read(ctx context.Context, h source.Held, refs []verdict.Ref) (source.Held, error) {
	return c.reader().Read(ctx, h, refs)
}

func (c *Controller) reader() Reader {
	return Reader{
		Readers: kube.Readers{Cached: c.Cached, Live: c.Live}, Driver: c.Driver, Asks: c.Asks, Known: c.users,
		Elsewhere: c.Elsewhere, Protected: c.protected, Snapshots: c.Snapshots,
	}
}

// users counts the calls before it reads the requests: an end of a call that leaves a request is
// seen by one of the two.
func (c *Controller) users(ctx context.Context, ref source.Ref) (u source.Users, err error) {
	u.Calls, u.Begun = c.count(ref)
	u.Calls += c.local.count(ref.NamespacedName, ref.IsSnapshot())
	u.Requests, err = c.Requests(ctx)
	return u, err
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(h source.Held, now time.Time) source.Verdict {
	return source.Release(h, now)
}

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
	case verdict.SourceInUse, verdict.SourceDeletionAwaits:
		c.know(ref)
	case verdict.SourceReleased, verdict.SourceUnprotected, verdict.SourceNotOurs:
		c.forget(ref)
	default: // nothing is known that was not known before
	}
}

// About implements reconcile.Task.
func (c *Controller) About(ref source.Ref, h source.Held) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeySource, ref.String()}}
	switch { // not a nil pointer in an interface
	case h.Claim != nil:
		about.Object = h.Claim
	case h.Snapshot != nil:
		about.Object = h.Snapshot
	}
	return about
}
