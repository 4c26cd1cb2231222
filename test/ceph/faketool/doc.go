// Package faketool fakes the tools of Ceph in tests: the test's own program is run under their
// names, answers by a script, and records its arguments and input.
//
// It decides nothing about Ceph; test/ceph has the real ones.
package faketool
