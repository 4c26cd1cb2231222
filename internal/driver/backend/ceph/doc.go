// Package ceph keeps volumes in Ceph clusters: RBD images, and subvolumes of
// CephFS.
//
// It decides what a class of volumes may ask for (settings), which cluster and
// which user a request is for (reach), and how a volume is brought to a node
// and away again (staging). The parts are packages: handle has the ids,
// command runs the tools, rbd and cephfs keep the volumes, mapping and sharing
// bring them to the node.
//
// Nothing is kept here that the clusters know: an id leads to its volume. The
// state directory has
//
//	STATE/ceph/places/<place>     where volumes were seen, for listing them
//	STATE/ceph/staged/<id>/       what is staged here, and how
//
// It must not know CSI messages, target paths or what is published. A key is
// in no log, error, argument or file.
package ceph
