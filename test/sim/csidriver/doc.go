// Package csidriver is a CSI driver with its storage in memory. It is idempotent by name, as the
// specification requires. A script decides for each call: it is refused, its answer is lost or
// late, or the answer is invalid.
//
// It must not know Kubernetes.
package csidriver
