// Command release makes a release of Purser from what the other targets built, without docker, and
// pushes and verifies it.
//
//	release key      -out PREFIX
//	release assemble -version v1.2.3 -binaries DIR -images DIR -chart FILE -plugin DIR -key FILE -out DIR
//	release push     -from DIR -registry HOST/PATH
//	release verify   -key FILE.pub (-from DIR | -registry HOST/PATH -version v1.2.3)
//	release serve    -address 127.0.0.1:5000
//
// A release is a folder: archives of the programs, the chart, SBOMs (SPDX), the manifest for krew,
// provenance (an in-toto statement with SLSA's predicate), SHA256SUMS, and images, an OCI layout with
// the images, the chart and the signatures as cosign stores them. What is written depends on the
// inputs and the flags only, so that the same source and key yield the same bytes.
//
// It does not compile: the Makefile does, with the targets that are used without a release.
package main
