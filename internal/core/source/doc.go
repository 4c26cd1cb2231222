// Package source decides about the sources of volumes: which source a claim names, whether a volume
// can be made from it, and when the finalizer that keeps a source may be removed.
//
// A source is another claim, whose volume is cloned, or a VolumeSnapshot, which is restored. Every
// other kind is for a volume populator.
//
// It must not know requests, calls or clients; core/provision puts the result into its request.
// The facts are in docs/spec/external-provisioner.md, sections 5.6 to 5.8 and 9.
package source
