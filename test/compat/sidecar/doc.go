// Package sidecar plays scenarios to upstream's CSI sidecars and to ours, each side on an API server
// of its own and beside scripted CSI drivers, and compares final objects, events and the requests
// that the drivers got.
//
// It must not know what the scenarios are about.
package sidecar
