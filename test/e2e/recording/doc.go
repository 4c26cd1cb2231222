// Command recording runs `purser up` and `purser explain` in a terminal of its own and writes what the
// terminal shows as an SVG, in which the lines appear at the times at which they did.
//
//	go run ./test/e2e/recording -out docs/recording.svg
//
// The programs think that a user looks, so that colours and progress are as they are for a user.
// Nothing in the picture is written by hand but the prompts.
package main
