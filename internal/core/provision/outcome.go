package provision

import (
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/core/rpcerror"
)

// outcome is what a failed CreateVolume means for the volume.
type outcome int

const (
	uncertain outcome = iota // the call may be in progress
	halfDone                 // the call has ended and may have left a volume (H-15)
	final                    // no volume exists
	infeasible
	exhausted
)

// meaning returns the outcome of a failed call.
func meaning(a Answer) outcome {
	if a.Foreign { // C-44
		return uncertain
	}
	switch {
	case rpcerror.IsUncertain(a.Code): // C-40
		return uncertain
	case a.Code == codes.ResourceExhausted: // C-41
		return exhausted
	case a.Code == codes.InvalidArgument: // C-42
		return infeasible
	case rpcerror.MayLeaveVolume(a.Code): // C-43, H-15
		return halfDone
	default: // C-43
		return final
	}
}
