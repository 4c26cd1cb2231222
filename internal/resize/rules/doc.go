// Package resizing decides how a claim's volume gets the size that the claim requests: which size
// is sent to the driver and when, what its answer means, and when the node takes over. It is the
// state machine of external-resizer over status.allocatedResources and
// status.allocatedResourceStatuses (KEP-1790).
//
// [DecideAttributes] decides how a volume gets the VolumeAttributesClass that its claim names: which class
// is the target, when the driver is called, and what its answer means (KEP-3751). [DecideExpansion]
// decides which event a claim gets that requests more than its capacity, in place of
// kube-controller-manager, and the annotation that names the resizer of a migrated volume.
//
// The state of earlier attempts is in the claim's status, so that it survives a restart. The
// package must not know how objects are read or written.
package resizing
