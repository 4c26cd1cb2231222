// Package ceph runs the backend ceph, and the driver around it, against a real
// Ceph that the test starts itself: one monitor, one manager, one OSD in
// memory, one metadata server. Without Ceph's programs the tests are skipped
// and say what is missing; `make test-ceph` installs them where it may.
package ceph
