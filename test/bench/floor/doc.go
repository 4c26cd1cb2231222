// Package floor measures the distance of each volume operation to its floor: the fewest API writes that
// the contract with other components allows, and a bare client that makes exactly these writes with
// the same concurrency and no logic. docs/performance.md derives the floors write by write.
package floor
