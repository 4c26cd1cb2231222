// Package handoff is the queue through which a binder hands claims to a provisioner in the same
// process. Without it the two communicate by an annotation on the claim, which costs a write and
// the latency of a watch.
//
// The package stores claims and calls event handlers. It decides nothing.
package handoff
