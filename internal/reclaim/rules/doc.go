// Package reclaim decides what happens to a PersistentVolume of one CSI driver when its claim is
// gone (retain, delete or wait), and when our finalizer is added and removed.
//
// [Decide] returns the actions for a snapshot, [AfterDelete] what follows from the driver's
// response. Both are pure functions without clients, caches or connections. The row IDs are
// explained in docs/spec/external-provisioner.md, section 4.
package reclaim
