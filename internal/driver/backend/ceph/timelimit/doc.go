// Package timelimit bounds how long a caller waits for an operation that may never end: a call into
// a filesystem whose daemon waits for an unreachable cluster, or a process that SIGKILL does not
// end.
//
// It decides when the caller returns without a result, and that no other work starts with the same
// target until the hanging work has ended. The hanging work is left running, since the program
// cannot end it.
//
// It must not know what the work is.
package timelimit
