// Package modify applies the VolumeAttributesClass that a claim names to its volume through one CSI
// driver: the effects around core/attributes.
//
// It must not decide which class is applied, nor what an answer means.
package modify
