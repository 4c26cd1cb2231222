package csispec

import (
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
)

// Failure is a call to a driver that did not succeed. No text in it has a secret value.
type Failure struct {
	// NoAnswer says that the driver has not answered: the call was not sent, or its error is not a
	// gRPC status, so that nothing is known of its effect (C-44).
	NoAnswer bool
	Code     codes.Code // OK for an error without a code
	Message  string     // the text of the error without the code
	// Secret is the secret of the call if it could not be read, or if the call was sent without it
	// because it does not exist.
	Secret types.NamespacedName
}

// IsFinal reports whether the driver is certain to do nothing more for the call (RZ-C1, SN-K1).
// CreateVolume has rules of its own.
func (f Failure) IsFinal() bool { return !f.NoAnswer && !IsUncertainOrExhausted(f.Code) }

// Answered reports whether the driver answered with one of the codes.
func (f Failure) Answered(with ...codes.Code) bool {
	return !f.NoAnswer && slices.Contains(with, f.Code)
}

// Words returns the text for events and the status of objects. It has the code in gRPC's form, as
// upstream's events have it, so that alerts find it (EV-2).
func (f Failure) Words() string {
	if f.Code == codes.OK {
		return f.Message
	}
	return fmt.Sprintf("rpc error: code = %s desc = %s", f.Code, f.Message)
}

// CodeName returns the name of the code for logs, metrics and conditions.
func (f Failure) CodeName() string {
	if f.Code == codes.OK {
		return codes.Unknown.String()
	}
	return f.Code.String()
}
