// Package house checks the rules of the source tree: which package may import which, the purity of
// the core, and that every package has a doc comment.
package house
