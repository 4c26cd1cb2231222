// Package migration translates classes and volumes of the storage plugins that were a part of
// Kubernetes to those of the CSI drivers that took their place, and back.
//
// The rules are those of csi-translation-lib, which all components of Kubernetes use, so that a
// volume means the same to each of them. The package must not know claims, requests or decisions.
// The facts are in docs/spec/external-provisioner.md, section 11.
package migration
