// Package rules decides what a liveness check of a CSI driver answers, from what the driver has
// said. It must not know gRPC, HTTP servers or clocks.
package rules
