// Package sanity runs csi-sanity, the conformance test of the CSI project,
// against the driver.
//
// csi-sanity is a program and not a library here: it brings a test framework
// of its own, which stays in the tools module.
package sanity
