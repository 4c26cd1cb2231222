// Package faketool plays the tools of Ceph in tests: the test's own program is
// run again under their names, answers by a script, and writes down how it was
// called and what it was given.
//
// It decides nothing about Ceph; test/ceph has the real ones.
package faketool
