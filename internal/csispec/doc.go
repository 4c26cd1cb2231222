// Package csispec holds what the CSI specification says, apart from any one call: a failed
// call, what its gRPC code says about its effect, and the volume capability of a PersistentVolume.
//
// An error is final, so that the driver does nothing more for the call, or uncertain, so that the call
// may still have its effect; final_and_uncertain.go has the codes. What a controller does after an
// error is decided in the rules of its feature.
package csispec
