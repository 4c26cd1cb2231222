// Package size turns quantities of the API into bytes, and bytes into quantities. It is the only
// package that reads the number of a resource.Quantity, which a linter checks: Quantity.Value is 0,
// or has another sign, for a size that an int64 does not hold, and the API server accepts such a
// claim.
//
// It must not know which field a size comes from, nor what is done with it.
package size
