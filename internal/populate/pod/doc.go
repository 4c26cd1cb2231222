// Package pod runs the function of a populator in its pod: it serves the progress, which the controller
// reads, and writes the end to the termination message. A populator of one's own is a [Function] and a
// populate.Populator.
//
// It decides nothing about the volume, needs no access to the API server, and must not know any source.
package pod
