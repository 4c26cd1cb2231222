// Package snapshotting applies the decisions of core/snapshotting: [Controller] is the
// snapshot-controller, which works on objects only, and [Sidecar] is the csi-snapshotter, which
// asks one driver.
//
// It must not decide anything: which class, which content, when a finalizer goes, what a driver's
// answer means.
package snapshotting
