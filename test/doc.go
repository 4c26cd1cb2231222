// Package test is where Purser is tried as a whole: e2e on real parts, live for the roles on a real
// API server, sanity against the CSI specification, house for the rules of the source tree, bench
// for what it costs.
package test
