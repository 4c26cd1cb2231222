// Package random generates scenarios: random actions of users and provisioners on a few claims,
// volumes, pods and classes, also such as make no sense.
//
// It must not know the expected outcome, which only the invariants check.
package random
