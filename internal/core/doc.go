// Package core holds the pure decisions of all controllers, and nothing else.
//
// Everything below core is data in, verdict out. No package here may do I/O, read a clock, draw a
// random number, start a goroutine, take a context or write a log line; time is a parameter. The
// rule is held by test/house.
package core
