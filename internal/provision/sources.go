package provision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// Sources protects the sources of claims while volumes are created from them.
type Sources interface {
	// Protect adds the finalizer to a source. The claim counts as its user until Done.
	Protect(ctx context.Context, a provision.ProtectSource, claim types.UID) error
	// Done says that the run of a claim has ended.
	Done(claim types.UID)
	// Resolved says that an unresolved request with a source has been resolved.
	Resolved()
}

// noSources is the Sources of a driver that creates no volume from a source.
type noSources struct{}

func (noSources) Protect(context.Context, provision.ProtectSource, types.UID) error { return nil }
func (noSources) Done(types.UID)                                                    {}
func (noSources) Resolved()                                                         {}

// resolve removes the journal entry of a claim; an entry with a source protected that source. A
// claim that got its volume is stored first, since the cache may show neither claim nor volume for
// a while.
func (c *Controller) resolve(ctx context.Context, s provision.Snapshot) error {
	if s.Pending != nil && provision.GotVolume(s) {
		c.memory.setProvisioned(s.Key.UID)
	}
	if err := c.Journal.Resolve(ctx, s.Key.UID); err != nil {
		return err
	}
	if s.Pending != nil && s.Pending.Request.GetVolumeContentSource() != nil {
		c.Sources.Resolved()
	}
	return nil
}

// fromSource enqueues the claims whose source is a claim that has become bound.
func (c *Controller) fromSource(ctx context.Context, change reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
	if change.IsDeleted() || change.New.Status.Phase != corev1.ClaimBound ||
		!change.IsCreated() && change.Old.Status.Phase == corev1.ClaimBound {
		return
	}
	c.enqueueUsers(ctx, source.Ref{Kind: source.KindClaim, NamespacedName: client.ObjectKeyFromObject(change.New)}, q)
}

// fromShared enqueues the claims of a source that has changed since one of them was refused for it.
func (c *Controller) fromShared(ctx context.Context, q queue) error {
	c.shared.onChange(func(ref source.Ref) { c.enqueueUsers(ctx, ref, q) })
	return nil
}

// enqueueUsers enqueues the claims whose volume is to begin with the source.
func (c *Controller) enqueueUsers(ctx context.Context, ref source.Ref, q queue) {
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{sources.IndexSource: ref.String()}); err != nil {
		return // the backoff requeues each claim
	}
	for i := range claims.Items {
		for _, key := range c.fromClaim(ctx, &claims.Items[i]) {
			q.Add(key)
		}
	}
}

// Asks reports whether a claim asks for a volume of this driver.
func (c *Controller) Asks(claim *corev1.PersistentVolumeClaim) bool { return c.asksUs(claim) }

// SourceRequests returns all requests in the journal that have a source.
func (c *Controller) SourceRequests(ctx context.Context) ([]source.Request, error) {
	if err := c.Journal.Wait(ctx); err != nil {
		return nil, err
	}
	return SourcesOf(c.Journal.Entries()), nil
}

// SourcesOf returns the journal entries that have a source, with the requests that they replaced.
func SourcesOf(entries []intent.Entry) (all []source.Request) {
	for i := range entries {
		for e := &entries[i]; e != nil; e = e.Replaced {
			if from := e.Request.GetVolumeContentSource(); from != nil {
				all = append(all, source.Request{
					Content: from, Volume: e.VolumeName, Claim: e.Claim, Secret: e.Secrets.Of(secretref.Provisioner),
				})
			}
		}
	}
	return all
}
