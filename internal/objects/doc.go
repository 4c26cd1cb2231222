// Package objects has small functions on API objects that several rules need. It also translates
// classes and volumes of in-tree storage plugins to those of the CSI drivers that the plugins are
// migrated to, and back, by csi-translation-lib, so that a volume means the same to each component
// (docs/spec/external-provisioner.md, section 11).
//
// It must not know any decision.
package objects
