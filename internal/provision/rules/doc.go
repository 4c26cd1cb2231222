// Package provision decides what happens to a claim that needs a volume from one CSI driver:
// whether the claim is for this driver, which request to send, what the response means, and which
// PersistentVolume to write.
//
// [Decide] returns the first actions for a snapshot. [AfterCreate], [AfterWrite] and [AfterDiscard]
// return what follows from the result of an action. All are pure functions without clients, caches
// or connections.
//
// The row IDs are explained in docs/spec/external-provisioner.md, sections 3, 5 and 6.
package provision
