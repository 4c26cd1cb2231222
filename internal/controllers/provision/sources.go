package provision

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/source"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/world"
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
		c.provisioned.add(s.Key.UID)
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
	ref := source.Ref{Kind: source.KindClaim, NamespacedName: client.ObjectKeyFromObject(change.New)}
	var claims corev1.PersistentVolumeClaimList
	if err := c.Cached.List(ctx, &claims, client.MatchingFields{world.IndexSource: ref.String()}); err != nil {
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

// ContentSources returns the content sources of all requests in the journal.
func (c *Controller) ContentSources(ctx context.Context) (all []*csi.VolumeContentSource, err error) {
	if err := c.Journal.Wait(ctx); err != nil {
		return nil, err
	}
	return SourcesOf(c.Journal.Entries()), nil
}

// SourcesOf returns the content sources of journal entries and of the requests that they replaced.
func SourcesOf(entries []intent.Entry) (all []*csi.VolumeContentSource) {
	for i := range entries {
		for e := &entries[i]; e != nil; e = e.Replaced {
			if from := e.Request.GetVolumeContentSource(); from != nil {
				all = append(all, from)
			}
		}
	}
	return all
}
