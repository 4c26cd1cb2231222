// Package mount makes a directory or a block device appear at a second path and
// takes it away again, and it knows what is mounted below a folder.
//
// It decides how that is done on this machine: with bind mounts where the
// process may mount, and with symbolic links where it may not (see Detect).
// Symbolic links are a stand-in for development without root. They show the
// same files at the target path, but they cannot be made read-only, and a
// container runtime does not treat them as a mount.
//
// It must not know volumes, CSI requests or Kubernetes: callers pass source and target.
//
// Invariants:
//   - nothing is mounted over something that is already in use: a target that
//     is a file with content, a foreign mount or a directory with entries is refused;
//   - undoing removes mounts, links, empty directories and empty files, never
//     data;
//   - CleanBelow touches nothing outside the folder it is given.
package mount
