// Package resizing decides how a claim's volume gets the size that the claim requests: which size
// is sent to the driver and when, what its answer means, and when the node takes over. It is the
// state machine of external-resizer over status.allocatedResources and
// status.allocatedResourceStatuses (KEP-1790).
//
// The state of earlier attempts is in the claim's status, so that it survives a restart. The
// package must not know how objects are read or written.
package resizing
