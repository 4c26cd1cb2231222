// Package sidecar plays scenarios on upstream's CSI sidecars and on ours, each side with its own
// API server and scripted CSI drivers, and compares the final objects, events and requests to the
// drivers.
//
// It must not know what the scenarios are about.
package sidecar
