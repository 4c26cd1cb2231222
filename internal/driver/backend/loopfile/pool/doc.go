// Package pool keeps account of what volumes and snapshots may still take
// from the filesystem that they lie on.
//
// It decides how much may be promised: what is free plus what ours have taken
// already, times the over-commit limit. Against it count the whole size of
// every volume, written or not, and what snapshots hold. A pool that shares
// space between copies is judged by the worst case, in which every volume is
// overwritten until nothing is shared any more.
//
// It must not know files: it works on numbers only.
package pool
