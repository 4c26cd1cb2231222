// Package cluster starts a Ceph of one machine for tests: a private folder,
// free ports, data in memory, and daemons that end with the program that
// started them.
//
// It decides how little configuration such a cluster needs. It knows nothing
// of the driver.
package cluster
