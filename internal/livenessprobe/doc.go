// Package livenessprobe turns CSI Probe into an HTTP health check, as upstream's livenessprobe does.
//
// It keeps one connection to the driver, has one Probe in flight at a time and gives its answer to
// all checks that wait. What is answered is decided by package rules. The package must not know flags
// or Kubernetes objects.
package livenessprobe
