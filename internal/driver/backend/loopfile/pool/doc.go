// Package pool accounts for the space of the filesystem with the volumes and
// snapshots.
//
// It decides how much may be promised: the free space plus the space that our
// volumes use, times the over-commit limit. The whole size of every volume
// counts against it, written or not, and the space of snapshots. A pool that shares
// space between copies is judged by the worst case, in which every volume is
// overwritten until nothing is shared any more.
//
// It must not know files: it works on numbers only.
package pool
