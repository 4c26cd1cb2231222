// Package neighbours is a model of what stands beside us in a stock cluster and works on the same
// objects: the PV controller, which names the provisioner of a claim, binds and releases, and the
// two protection controllers, which drop their finalizers; and another provisioner.
//
// It does one write at a time, so that everything else can happen between any two of them. It knows
// nothing of our controllers.
package neighbours
