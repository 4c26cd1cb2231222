// Package handle decides what the ids of Ceph volumes, snapshots and groups
// say: the kind, the cluster, the pool or filesystem, and the name of the
// object there. An id alone is enough to find what it names, so there is no
// index that could get lost or disagree.
//
//	rbd.<cluster>.<pool>.<image>             a volume that is an RBD image
//	rbdsnap.<cluster>.<pool>.<image>.<snap>  a snapshot of it
//	rbdgroup.<cluster>.<pool>.<image>.<snap> a group of snapshots; the image
//	                                         is the first of its volumes
//	fs.<cluster>.<fs>.<subvolume>            a volume that is a subvolume
//	fssnap.<cluster>.<fs>.<subvolume>.<snap> a snapshot of it
//
// It does no I/O and must not know how any of these are made.
package handle
