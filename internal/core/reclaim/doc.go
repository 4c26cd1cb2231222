// Package reclaim decides what happens to a PersistentVolume of one CSI driver when its claim is
// gone: keep the volume, delete it, or wait; and when our finalizer goes on and comes off.
//
// [Decide] looks at the world, [AfterDelete] at the driver's answer. Neither does anything, and
// neither may know of clients, caches or connections. The facts are in docs/rows.md section 4;
// their IDs stand beside the rules.
package reclaim
