// Package report compares the results of a scenario on two sides, and says which differences are
// listed and which are worse.
//
// It must not know how scenarios are played.
package report
