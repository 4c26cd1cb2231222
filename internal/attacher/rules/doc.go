// Package publishing decides what becomes of a VolumeAttachment: when its volume is published to
// the node, with which node id it is unpublished, and which finalizers and status fields say so. It
// is external-attacher's part; which volume belongs on which node is decided by the attach-detach
// controller.
//
// Everything that a detach needs is written on the VolumeAttachment before the attach begins, so
// that a restart, a node that was created again and a PersistentVolume that is gone change nothing
// about it. The package must not know how objects are read or written.
package publishing
