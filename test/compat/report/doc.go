// Package report compares what became of a scenario on two sides, and says which differences are
// listed, equal or worse.
//
// It must not know how scenarios are played.
package report
