// Package tracer stops a child process of a test before each system call that changes something on
// disk, and kills it before the one that the test chooses, or lets those fail that need room on a
// full disk. The kernel does it (seccomp with a
// listener), so nothing in the code under test knows of it.
package tracer
