// Package sidecars is the role sidecars: the sidecars of one driver in one process, with one
// connection, cache, lease and HTTP server. One half is for the pods of the driver's controller, the
// other (--node) for those of its nodes.
//
// It decides which components run and what they share. It must not know how any of them works.
package sidecars
