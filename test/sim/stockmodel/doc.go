// Package stockmodel is a model of the stock controllers that work on the same objects: the PV
// controller, which sets the provisioner of a claim, binds and releases, the two protection
// controllers, which remove their finalizers, and another provisioner.
//
// It does one write at a time, so that any other event can happen between two writes. It must not
// know the controllers under test.
package stockmodel
