// Package decisions runs the decisions of all controllers over a list of objects, and writes their
// verdicts down, so that a test can compare what is decided over the informer cache with what is
// decided over a dump.
package decisions
