// Package apiserver is an API server in memory for the few kinds that the controllers use, with the
// semantics that they rely on: resource versions, uids, preconditions, immutable fields, finalizers
// and graceful deletion, the split of /status, patches on metadata, and an ordered history of
// changes per kind, from which watches are made.
//
// What it answers is held against a real kube-apiserver by the conformance table in test/sim. It
// knows nothing of controllers, has no goroutine and no clock but that of its objects' timestamps.
package apiserver
