// Package outcome reduces the objects and events of a scenario to lines without times, real names
// and uids, and compares two outcomes.
//
// It must not know which of the two is right.
package outcome
