// Package audited is an API server with an audit log for benchmarks of sidecars: an account for each
// program that is measured, bound pairs of claims and volumes, and the requests of the accounts by
// verb. It must not know what is measured.
package audited
