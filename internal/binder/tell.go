package binder

import (
	"time"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// tell writes an event that is an action of its own.
func (c *Controller) tell(a binding.Tell) {
	if a.Volume != nil {
		c.teller.Tell(a.Volume, a.Volume.UID, a.Finding)
		return
	}
	c.teller.Tell(a.Claim, a.Claim.UID, a.Finding)
}

// observe notes how a run saw the claim, and tells the claim how it ended.
func (c *Controller) observe(_ binding.Key, r *run, end next, _ time.Duration) {
	c.enqueue(c.objectStore.ended(r.Snapshot))
	if r.Claim == nil {
		return
	}
	if end.Because().Reason == verdict.ClaimBound {
		if objects.ReuseOnClaim(r.Claim) != nil {
			return // its event is emitted once
		}
		c.teller.Forget(r.Claim.UID)
		return
	}
	if _, waits := end.(verdict.Wait[binding.Action]); waits {
		c.teller.TellWaiting(r.Claim, r.Claim.UID, end.Because())
		return
	}
	c.teller.Tell(r.Claim, r.Claim.UID, end.Because())
}
