// Package e2e tries Purser on real parts: a real API server, scheduler and volume binder, a real
// driver, real folders and mounts. Tests that leave `purser up` alone share one; those that kill it
// have their own.
//
// The parts are programs in bin/. Where they are not built, the tests are skipped and say so.
package e2e
