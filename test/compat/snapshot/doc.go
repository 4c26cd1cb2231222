// Package snapshot compares the two halves of the snapshotter with upstream's: each half of ours
// beside upstream's other half, and both of ours together, leave the same objects and the same
// snapshots on the storage side as both of upstream's.
//
// It must not know how either half works.
package snapshot
