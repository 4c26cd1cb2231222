// Package process runs one program as a child: it starts it with a log file, says when and why it
// ended, and stops it.
//
// It decides how a child is tied to this process: a child never outlives its parent, whatever ends
// the parent, and Ctrl-C in a terminal reaches the parent only, which then stops its children in
// its own order.
//
// It must not know what the program does: no flags, no ports, no readiness, no Kubernetes.
package process
