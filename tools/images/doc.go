// Command images assembles the container images of Purser as OCI layouts, without docker.
//
//	images -version v1.2.3 -out DIR AMD64-BINARY ARM64-BINARY
//
// Each image has one layer: the static binary, and a link to it at every path that charts call
// (SM-70). All images of an architecture share that layer and differ in name and entry point
// (SM-71). What is written depends on the binaries and the flags only, so that the same source
// yields the same bytes. Beside the layouts are an SBOM of each binary (SPDX) and SHA256SUMS.
//
// With -lock and -packages there is one more image, purser-driver, with the Debian packages of the
// lock file below the binary; packages.sh fetches them, and lock.sh writes the file.
package main
