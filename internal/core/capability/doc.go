// Package capability turns a PersistentVolume into the volume capability that calls about an
// existing volume carry.
//
// It must not know which call that is.
package capability
