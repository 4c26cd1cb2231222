// Package expand is the controller for claims that request more than their capacity. It emits the
// event that an external resizer has to expand the volume, and writes the annotation with the
// resizer of a migrated volume, as core/expansion decides.
//
// All reads are from the informer cache; upstream reads each PersistentVolume from the API server.
//
// # Permissions
//
//	persistentvolumeclaims get, list, watch; persistentvolumeclaims/status patch; persistentvolumes get, list, watch;
//	events create, patch
package expand
