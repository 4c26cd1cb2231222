// Package cephfs keeps volumes as subvolumes of one filesystem of a cluster,
// through the program ceph and the manager's module "volumes".
//
// It decides how a volume is created and deleted: its subvolume has the quota that is the volume's
// size, and all are in one group, which is made with the first, and a subvolume in it keeps the
// names of snapshots (package naming). A subvolume becomes a volume with its record, which is
// metadata and the last step. Deleting a volume keeps its snapshots. A clone is a copy that the
// cluster makes in the background; until it is done, the answer is that it is busy.
//
// It must not know nodes or mounts.
package cephfs
