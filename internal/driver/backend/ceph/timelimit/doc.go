// Package timelimit bounds how long a caller is kept by something that may
// never end: a call into a filesystem whose daemon waits for a cluster that is
// away, or a process that the kernel does not let go of.
//
// It decides when the caller goes on without an answer, and that nothing more
// is begun with the same target until what hangs has ended. What hangs is left
// alone: nothing in a program can end it.
//
// It must not know what the work is.
package timelimit
