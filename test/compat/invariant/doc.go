// Package invariant checks a history for states that controllers must never cause, whatever users
// do: rows I1 to I7 and I10 of docs/spec/invariants.md, as far as they are about binding.
//
// It knows which writes were the users'. It must not know which controllers made the others.
package invariant
