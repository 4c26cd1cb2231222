// Package image makes the files that hold the content of volumes and
// snapshots.
//
// It decides how a file gets its size (sparse, or with all its space reserved
// in the pool), how it becomes a copy of another one (sharing the space
// where the pool can, byte by byte where not), what it means that an image is
// blank, and where two images differ.
//
// It must not know loop devices, filesystems inside an image, or volumes.
package image
