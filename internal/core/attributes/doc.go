// Package attributes decides how a volume gets the VolumeAttributesClass that its claim names:
// which class is the target, when the driver is asked, and what its answer means for the claim's
// status (KEP-3751).
//
// Whether the outcome of the last attempt is known is read from the claim's status, so that a new
// leader knows what the previous one knew. The package must not know how objects are read or
// written.
package attributes
