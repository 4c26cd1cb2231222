// Package journal keeps the unresolved CreateVolume requests in the API server, so that they outlive
// the process.
//
// The journal is one Lease in Purser's own namespace, which the role that upstream ships with
// already allows. It is updated in place under its resourceVersion, which fences a previous leader:
// its next write after a takeover conflicts, it learns that it does not lead any more, and it
// starts no further call. One write carries everything that was added and resolved since the last.
//
// What the journal must have is for core/intent to say. This package must not know what a claim or a
// volume is.
package journal
