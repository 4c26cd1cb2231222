// Package snapshotting decides how VolumeSnapshots and their contents come to be, become ready and
// are deleted. [DecideSnapshot] is the snapshot-controller's half: class, content, binding, status,
// finalizers of VolumeSnapshot and claim. [DecideContent] is the half of the csi-snapshotter beside
// the driver: CreateSnapshot, ListSnapshots, DeleteSnapshot, the status of the content, its
// finalizer's removal. The halves meet only in the objects, so either works beside upstream's other
// half.
//
// Both are for VolumeGroupSnapshots as well: selector, class, content, members, status;
// CreateVolumeGroupSnapshot, GetVolumeGroupSnapshot and DeleteVolumeGroupSnapshot (rows SN-G*). The
// rules read the objects of either kind as one (objects.go); kinds.go says how the kinds differ.
//
// The package must not know how objects are read or written. The rows are SN-* of docs/spec.
package snapshotting
