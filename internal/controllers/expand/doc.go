// Package expand is the effects of claims that ask for more: it tells that an external resizer is
// to expand them, and names the resizer of a volume that moved to CSI, as core/expansion decides.
//
// Everything is read from memory; upstream reads each PersistentVolume from the API server.
//
// # Permissions
//
//	persistentvolumeclaims get, list, watch; persistentvolumeclaims/status patch; persistentvolumes get, list, watch;
//	events create, patch
package expand
