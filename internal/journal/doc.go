// Package journal keeps the unresolved CreateVolume requests in the API server, so that they outlive
// the process.
//
// The journal is one Lease in Purser's own namespace, which the role that upstream ships with
// already allows. Updates with a resourceVersion precondition fence a previous leader. After a
// takeover its next write conflicts, so it stops leading and starts no further call. One write has
// everything that was added and resolved since the last one.
//
// A second Lease has the CreateSnapshot calls of a csi-snapshotter in the process of the
// snapshot-controller: a content takes the place of the claim, and only the names of an entry are used.
//
// internal/journal/rules decides what the journal must have. This package does not know claims or volumes.
package journal
