// Package stage runs `purser up` as a child process, the way a person does, and gives tests and the
// demo what a person has: a kubeconfig, the driver's socket, and Ctrl-C.
//
// It must not know what is played on it.
package stage
