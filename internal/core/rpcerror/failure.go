package rpcerror

import "google.golang.org/grpc/codes"

// Failure is the error of a call that changes a volume. CreateVolume has rules of its own.
type Failure struct {
	Code    codes.Code
	Message string // the driver's error message, without secret values
}

// IsFinal reports whether the driver is certain to do nothing more for the call (RZ-C1).
func (f Failure) IsFinal() bool { return !IsUncertainOrExhausted(f.Code) }
