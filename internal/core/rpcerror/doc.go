// Package rpcerror decides what the gRPC code of a failed CSI call says about the call's effect:
// whether the error is final, so that the driver does nothing more for the call, or uncertain, so
// that the call may still have its effect.
//
// The file final_and_uncertain.go has the codes. What a controller does after an error is decided
// in its own package of core.
package rpcerror
