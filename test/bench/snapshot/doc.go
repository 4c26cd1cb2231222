// Command snapshot measures bursts of snapshots and restores: a scripted driver, a real API server,
// and in turn each combination of the halves of upstream's external-snapshotter and of Purser's. For
// each it prints the rates of taking, restoring and deleting, the requests by verb, the conflicts, and
// the calls of the driver.
package main
