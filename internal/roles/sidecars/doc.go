// Package sidecars is the role sidecars: csi-provisioner, csi-attacher, csi-resizer and
// csi-snapshotter of one driver in one process, with one connection, cache and lease.
//
// It decides which of them run and what they share. It must not know how any of them works.
package sidecars
