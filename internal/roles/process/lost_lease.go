package process

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// RunUntilLeaseLost runs the manager of a role until ctx ends or the lease is lost. A lease is lost
// when it is not renewed within --leader-election-renew-deadline, or has another holder.
//
// When the lease is lost, Start returns an error at once, without a wait for the calls and requests
// in flight, and the role returns it, which ends the process. It never takes the lease again: a new
// process does, with an empty memory.
//
// Until the process has ended it may still send what it had decided. This fences it:
//   - CreateVolume: each call begins after a write of the journal's Lease. The new leader takes that
//     Lease over first, so such a write of the previous leader fails (internal/journal).
//   - DeleteVolume: the new leader deletes a volume only when the previous leader's calls that
//     could create it again must have ended (Entry.CallsEnd in internal/journal/rules).
//   - Other calls to the driver are idempotent: the new leader sends the same one.
//   - Writes to the API server have the resourceVersion or the uid of the object that was decided on
//     as a precondition, and objects are created with a name made from the owner's.
func RunUntilLeaseLost(ctx context.Context, mgr manager.Manager) error {
	return mgr.Start(ctx)
}
