// Package attacher attaches and detaches volumes through one CSI driver: the effects around
// internal/attacher/rules, and the finalizer of the attacher on PersistentVolumes.
//
// It must not decide which volume belongs on which node, nor what an answer of the driver means.
package attacher
