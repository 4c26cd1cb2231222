// Package handoff is where a binder leaves claims for a provisioner in the same process. Without it
// the two speak through an annotation on the claim, which costs a write and the way through a
// watch.
//
// It remembers and wakes up. Whether a claim gets a volume is decided by those on both sides of it.
package handoff
