// Package handoff is the queue through which a binder hands claims to a provisioner in the same
// process. Without it the two communicate by an annotation on the claim, which costs a write and
// the latency of a watch.
//
// [Snapshots] is the memory that the roles of snapshots, a provisioner and the protection of claims
// share in place of marks in the API server.
//
// The package stores claims and calls event handlers. It decides nothing but which of two is first: a
// claim is held for a snapshot, or released.
package handoff
