// Package groupsnapshotting decides how VolumeGroupSnapshots, their contents and their members come
// to be, become ready and are deleted. [DecideGroup] is the snapshot-controller's half: selector,
// class, content, members, status. [DecideContent] is the half of the csi-snapshotter beside the
// driver: CreateVolumeGroupSnapshot, GetVolumeGroupSnapshot, DeleteVolumeGroupSnapshot, the status
// of the content, its finalizer's removal. What a member does is decided in core/snapshotting.
//
// The package must not know how objects are read or written. The rows are SN-G* of docs/spec.
package groupsnapshotting
