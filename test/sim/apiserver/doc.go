// Package apiserver is an API server in memory for the few kinds that the controllers use, with the
// semantics that they rely on: resource versions, uids, preconditions, immutable fields, finalizers
// and graceful deletion, the split of /status, patches on metadata, and an ordered history of
// changes per kind, from which watches are made.
//
// The conformance table in test/sim compares its answers with a real kube-apiserver. It must not
// know controllers, and has no goroutines and no clock except for timestamps of objects.
package apiserver
