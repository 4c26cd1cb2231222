// Package snapshot compares our snapshot-controller and csi-snapshotter with upstream's. Each of
// ours together with upstream's other program, and both of ours, leave the same objects and the
// same snapshots in the backend as both of upstream's.
//
// It must not know how the programs work.
package snapshot
