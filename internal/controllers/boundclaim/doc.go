// Package boundclaim reads and writes bound claims and their volumes for the controllers that
// change volumes. Reads include this process's own writes; the status of a claim is written with a
// resourceVersion precondition. The package also has the event handlers that enqueue claims.
//
// It decides nothing.
package boundclaim
