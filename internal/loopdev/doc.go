// Package loopdev makes block devices of image files, by the ioctls of the
// kernel's loop driver and without any program.
//
// It decides what makes a loop device ours: it is backed by the inode of an
// image, never by a path, because the kernel's idea of the path can be cut
// off or outdated. And it decides who uses one: a bind mount of a device node
// does not keep the device, so users are looked up in the mount table and
// a caller that needs a device for longer keeps it open (Device).
//
// It must not know volumes, filesystems or what an image holds.
package loopdev
