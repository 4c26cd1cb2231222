// Package snapshot measures bursts of snapshots and restores, in turn with each combination of the
// halves of upstream's external-snapshotter and of Purser's. For each it prints the rates of taking,
// restoring and deleting, the requests by verb, the conflicts, and the calls of the driver.
package snapshot
