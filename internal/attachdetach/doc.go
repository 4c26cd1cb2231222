// Package attachdetach is the effects of the attach-detach controller: it creates and deletes
// VolumeAttachments and writes status.volumesAttached of nodes, as internal/attachdetach/rules decides. Every
// wait is an event handler with an index; nothing polls.
//
// # Permissions
//
//	nodes get, list, watch; nodes/status patch;
//	pods, persistentvolumeclaims, persistentvolumes get, list, watch; csidrivers get, list,
//	watch; volumeattachments get, list, watch, create, delete, patch; events create, patch
package attachdetach
