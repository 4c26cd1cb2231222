// Package scenario reads scenarios: what a person did to claims and volumes, step by step, in a
// small text file each, whose comment says which rule is tried and what should come of it.
//
// It decides what a well-formed scenario is. It must not know of an API server, nor what a step does.
package scenario
