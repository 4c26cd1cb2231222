package csispec

import "google.golang.org/grpc/codes"

// IsUncertain reports whether a call that failed with the code may be in progress, or may have had
// its effect (C-40, RZ-C1). The request must be repeated unchanged until the driver answers with
// success or with a final error. All other codes are final.
//
// ResourceExhausted is not among them: after CreateVolume it is final (C-41). For calls after which
// it is uncertain, see [IsUncertainOrExhausted].
func IsUncertain(code codes.Code) bool {
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Unavailable:
		return true
	default:
		return false
	}
}

// IsUncertainOrExhausted is [IsUncertain] for calls other than CreateVolume: there a driver that is
// short of a resource may have done part of its work (RZ-C1).
func IsUncertainOrExhausted(code codes.Code) bool {
	return IsUncertain(code) || code == codes.ResourceExhausted
}

// MayLeaveVolume reports whether a CreateVolume call that ended with the code may have left a
// volume although the error is final: the driver failed in the middle of its work (C-43, H-15).
func MayLeaveVolume(code codes.Code) bool {
	switch code {
	case codes.Unknown, codes.Internal, codes.DataLoss:
		return true
	default:
		return false
	}
}
