// Package csidriver is a CSI driver with its storage in memory. It is idempotent by name, as the
// specification asks, and does what a script says with each call: refuse it, lose the answer,
// answer too late, answer nonsense.
//
// It knows nothing of Kubernetes.
package csidriver
