package provision

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// observe counts attempts like upstream (ME-1, ME-2), but not a claim that needs nothing as a
// failure (H-33).
func (c *Controller) observe(_ provision.Key, s provision.Snapshot, end next, took time.Duration) {
	if s.Claim == nil {
		return
	}
	if ref := s.Source.Ref; !ref.IsNone() && !s.SourceShared && provision.IsSourceRefused(s) {
		c.shared.keep(s.Claim, s.Source)
	}
	class, source := "", ""
	if s.Claim.Spec.StorageClassName != nil {
		class = *s.Claim.Spec.StorageClassName
	}
	if s.Claim.Spec.DataSource != nil {
		source = s.Claim.Spec.DataSource.Kind
	}
	switch why := end.Because(); end.(type) {
	case verdict.Refuse[provision.Action]:
		c.Provisions.Failed(class, source)
	case verdict.Nothing[provision.Action]:
		switch {
		case why.Reason == verdict.VolumeProvisioned:
			c.Provisions.Succeeded(took, class, source)
		case why.Reason == verdict.Rescheduled && why.Code != "": // the driver has no capacity on this node (C-41)
			c.Provisions.Failed(class, source)
		}
	}
}

// listTime bounds the list of claims: a scrape must not wait for the initial sync of the cache.
const listTime = time.Second

// Oldest returns the age of the oldest unprovisioned claim of this driver, by class.
func (c *Controller) Oldest() map[string]time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	var claims corev1.PersistentVolumeClaimList
	ages := map[string]time.Duration{}
	for _, asked := range []string{c.Driver.Name, ""} { // claims that name no driver may have been handed over
		if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexProvisioner: asked},
			client.UnsafeDisableDeepCopy); err != nil {
			return nil // the first list of claims is not complete
		}
		for i := range claims.Items {
			claim := &claims.Items[i]
			if claim.DeletionTimestamp != nil || !c.asksUs(claim) {
				continue
			}
			class := objects.ClaimClass(claim)
			ages[class] = max(ages[class], c.Clock.Since(claim.CreationTimestamp.Time))
		}
	}
	return ages
}
