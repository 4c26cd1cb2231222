// Package stage runs `purser up` as a child process, as a user does. Tests and the demo get what a
// user has: a kubeconfig, the driver's socket, and Ctrl-C.
//
// It must not know the tests.
package stage
