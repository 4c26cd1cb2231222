// Package modify is the controller that applies the VolumeAttributesClass of a claim to its volume
// through one CSI driver, as core/attributes decides.
//
// It must not decide which class is applied, nor what an answer means.
package modify
