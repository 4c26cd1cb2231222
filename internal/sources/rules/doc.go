// Package source decides about the sources of volumes: which source a claim names, whether a volume
// can be made from it, and when the finalizer that protects a source is removed.
//
// A source is another claim, whose volume is cloned, or a VolumeSnapshot, which is restored.
// Sources of other kinds are left to volume populators.
//
// It must not know requests, calls or clients; internal/provision/rules adds the result to its request. The
// facts are in docs/spec/external-provisioner.md, sections 5.6 to 5.8 and 9.
package source
