// Package rbd keeps volumes as RBD images of one pool, through the program
// rbd.
//
// It decides how a volume is created and deleted, so that a crash leaves no half
// of one, without a journal:
//
//	purser.<name>                 the image of a volume
//	purser.<name>@s<digest>       a snapshot, made by a request
//	purser.<name>@c<digest>       a snapshot that a clone is being made from
//	purser-deleted.<name>.<id>    a deleted volume that still has snapshots
//	group purser.<name>.g<digest> a group of snapshots
//	purser-names                  names of snapshots, see package naming
//	metadata purser               the record of a volume: it exists from the
//	                              moment it has one
//	metadata purser.snap.s<...>   the record of a snapshot, written before it
//
// An image without a record of its own was left by an interrupted create; the
// next create with its name removes it. Clones are of format 2, so that snapshots
// need no protection and can go before their clones do: RBD keeps the
// data that they read. Deleted images are moved to the trash, and stay there as
// long as they have clones.
//
// It must not know nodes, devices or mounts.
package rbd
