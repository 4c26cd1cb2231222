// Package migration translates classes and volumes of in-tree storage plugins to those of the CSI
// drivers that the plugins are migrated to, and back.
//
// The rules are those of csi-translation-lib, which all components of Kubernetes use, so that a
// volume means the same to each of them. The package must not know claims, requests or decisions.
// The facts are in docs/spec/external-provisioner.md, section 11.
package migration
