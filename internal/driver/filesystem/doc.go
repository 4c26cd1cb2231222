// Package filesystem makes, recognises, mounts, grows and freezes the
// filesystems that volumes hold: ext4, xfs and btrfs.
//
// It decides which program or ioctl does that for each of them, what the
// smallest size is, and what an image holds (Probe). Programs run without a
// shell, with a bound on their time, and what they print becomes part of the
// error. Growing and freezing are ioctls of the kernel and need no program.
//
// It must not know loop devices, images or volumes: it is given the path of a
// file, of a device, or of a mount.
package filesystem
