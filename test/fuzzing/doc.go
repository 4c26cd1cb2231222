// Package fuzzing turns the bytes of a fuzz input into objects with missing, empty and odd fields, for the
// fuzz tests of the decisions. Tests alone import it.
//
// It must not know a decision: what a verdict has to meet is in the test of its package.
package fuzzing
