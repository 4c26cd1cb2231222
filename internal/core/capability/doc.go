// Package capability returns the volume capability of a PersistentVolume for calls about an
// existing volume.
//
// It must not know the call.
package capability
