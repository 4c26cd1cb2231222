// Package e2e tests Purser with a real API server, scheduler and volume binder, a real driver, real
// folders and mounts. Most tests share one `purser up`; those that kill it start their own.
//
// The programs are in bin/. If they are not built, the tests are skipped.
package e2e
