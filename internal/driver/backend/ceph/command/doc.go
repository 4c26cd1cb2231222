// Package command runs the command-line tools of Ceph: rbd, ceph, and what
// attaches images and mounts filesystems.
//
// It decides how a tool is run: without a shell, with a small environment,
// with a bound on its time, in a process group that is killed as a whole, and
// only so many at once. It decides how the user's key reaches a tool: in
// memory that the tool inherits as an open file, so that it is in no argument,
// no environment and no file on disk. And it decides what an exit status
// means: the tools exit with an errno, which becomes a kind of fault.
//
// It must not know images, subvolumes or volumes.
package command
