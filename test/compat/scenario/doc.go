// Package scenario reads scenarios: the steps of a user on claims and volumes, in a small text file
// each, whose comment names the tested rule and the expected outcome.
//
// It decides what a well-formed scenario is. It must not know of an API server, nor what a step does.
package scenario
