// Package snapshot applies the decisions of internal/snapshot/rules: [Controller] is the
// snapshot-controller, which works on objects only, and [Sidecar] is the csi-snapshotter, which
// asks one driver.
//
// It decides nothing: classes, contents, finalizers and the meaning of a driver's response are
// decided in its rules.
package snapshot
