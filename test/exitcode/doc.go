// Package exitcode runs the work of a command of the tests and benchmarks as a process: until it is
// done, interrupted, or out of time, with an exit code. It must not know what the work is.
package exitcode
