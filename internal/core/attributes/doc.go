// Package attributes decides how a volume gets the VolumeAttributesClass that its claim names:
// which class is the target, when the driver is called, and what its answer means for the claim's
// status (KEP-3751).
//
// The claim's status says whether the outcome of the last attempt is known, so that a new leader
// knows it too. The package must not know how objects are read or written.
package attributes
