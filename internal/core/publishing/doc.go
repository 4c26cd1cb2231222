// Package publishing decides for external-attacher's side of a VolumeAttachment: which finalizers are written before the driver is
// called, what the driver is asked, what its answer means for the status, and when a PersistentVolume loses the attacher's finalizer.
//
// It must not know clients, caches, secret values or connections. Rows AT-* are in docs/spec/external-attacher.md.
package publishing
