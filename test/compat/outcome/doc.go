// Package outcome reduces what a scenario came to, its objects and the events about them, to lines
// that do not depend on when and under which names and uids it was played; and compares two of
// them.
//
// It must not know which of the two is right.
package outcome
