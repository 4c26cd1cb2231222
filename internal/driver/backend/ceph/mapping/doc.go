// Package mapping makes block devices of RBD images, with the program that this
// machine can: with the kernel's client (krbd), with rbd-nbd, or with rbd-fuse
// and a loop device over the file that it shows.
//
// It decides which way that is, how a device is found again from the kernel and the programs (not
// from memory), and when a device is gone. The daemons of the latter two ways live on when the
// driver ends.
//
// It must not know volumes, filesystems or who uses a device.
package mapping
