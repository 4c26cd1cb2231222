// Package ceph keeps volumes in Ceph clusters: RBD images, and subvolumes of
// CephFS.
//
// It decides what a class of volumes may ask for (settings), which cluster and
// which user a request is for (reach), how a volume is brought to a node and
// away again (staging), and that an operation that hangs blocks no other volume (node). The
// parts are packages: handle has the ids, naming the names, command runs the
// tools, rbd and cephfs keep the volumes, mapping and sharing bring them to the
// node, timelimit bounds operations that hang.
//
// Nothing is kept here that the clusters know: an id leads to its volume. The
// state directory has
//
//	STATE/ceph/places/<place>     a pool with volumes, for listing them, and
//	                              the names of the users whom it accepted
//	STATE/ceph/staged/<id>/       the record of a staged volume
//
// It must not know CSI messages, target paths or what is published. A key is
// in no log, error, argument or file.
//
// # One writer
//
// RBD lets any number of nodes map an image for writing, and two filesystems
// on one image destroy it. So an image for a single node is mapped only when
// no client watches it (a client that has an image open is a watcher of its
// header), and looked at again when it is mapped: of two nodes that mapped it
// at the same moment each sees the other, and both give way.
//
// # Fencing
//
// A dead node releases its images without help: its watch ends half a
// minute after its last sign of life. A node that is cut off is another
// matter, since it may write again when it comes back. As long as its watch
// lasts, FAILED_PRECONDITION names its address and the command that makes
// sure, which only a person may decide on:
//
//	ceph osd blocklist add ADDRESS
//
// Then nothing that the node still has in memory reaches the cluster. Its
// mounts hang, and so does taking them away, until the node is restarted or
// the daemons of its images are killed; only after that may it be unblocked
// (ceph osd blocklist rm ADDRESS). The driver fences no node: it cannot tell a
// dead node from one that it does not reach.
//
// # A cluster that is away
//
// Every run of a tool ends within its time-out, and the call is UNAVAILABLE:
// its outcome is unknown, and a repeated call finds it out. No signal ends a
// process in the kernel, for example an unmount with data to write. The driver
// leaves it alone: calls for that volume are ABORTED and say since when it
// hangs, other volumes are not affected, and it goes on when the cluster is
// back. If the cluster will not come back, killing the daemon (rbd-fuse, ceph-fuse) or
// `umount -f` of a kernel mount ends the mount, and loses unwritten data.
//
// # Daemons
//
// rbd-nbd, rbd-fuse and ceph-fuse are processes beside the driver. They outlive
// a driver that is restarted by a service manager which kills only the main
// process, but not the end of the container that they run in: their volumes
// are then of no use until their pods start anew. The kernel's own clients,
// which are chosen where the kernel has them, know no such trouble.
package ceph
