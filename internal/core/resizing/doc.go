// Package resizing decides how a claim's volume gets the size that the claim asks for: which size
// is asked of the driver and when, what its answer means, and when the node takes over. It is the
// state machine of external-resizer over status.allocatedResources and
// status.allocatedResourceStatuses (KEP-1790).
//
// What is known of earlier attempts is read from the claim's status, so that a restart knows what
// its predecessor knew. The package must not know how objects are read or written.
package resizing
