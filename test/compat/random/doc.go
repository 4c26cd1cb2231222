// Package random makes up scenarios: what people and provisioners do to a few claims, volumes, pods
// and classes, in any order and with no regard for whether it makes sense.
//
// It must not know what should come of it; only the invariants do.
package random
