// Package invariant looks through a history for states that controllers must never bring about,
// whatever people do: rows I1 to I7 and I10 of the specification.
//
// It knows which writes were the people's own. It must not know which controllers made the others.
package invariant
