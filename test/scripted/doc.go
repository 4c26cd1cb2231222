// Package scripted is what the CSI drivers of tests and benchmarks have in common: it answers the
// calls by which a sidecar recognises a driver, and serves the driver at a socket. What a driver
// answers to calls about volumes and snapshots is decided by the package that embeds [Driver].
package scripted
