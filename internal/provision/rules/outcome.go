package provision

import (
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/csispec"
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
func meaning(f csispec.Failure) outcome {
	if f.NoAnswer { // C-44
		return uncertain
	}
	switch {
	case csispec.IsUncertain(f.Code): // C-40
		return uncertain
	case f.Code == codes.ResourceExhausted: // C-41
		return exhausted
	case f.Code == codes.InvalidArgument: // C-42
		return infeasible
	case csispec.MayLeaveVolume(f.Code): // C-43, H-15
		return halfDone
	default: // C-43
		return final
	}
}
