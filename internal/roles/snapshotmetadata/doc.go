// Package snapshotmetadata is the role csi-snapshot-metadata: the drop-in for upstream's program of
// this name.
//
// It turns flags into a service (internal/snapshotmetadata), its certificate and its HTTP server.
// It must not know who may call the service.
package snapshotmetadata
