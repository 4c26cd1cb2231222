// Package ceph runs ceph-csi with Purser's sidecars against a real Ceph that the test starts itself:
// one monitor, one manager, one OSD in memory, one metadata server. Without Ceph's programs the
// tests are skipped and say what is missing; `make test-ceph` installs them on Debian, as root.
package ceph
