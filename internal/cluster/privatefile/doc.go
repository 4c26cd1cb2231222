// Package privatefile writes files that only their owner can read.
//
// It decides that a file is replaced as a whole: a kill half way leaves the old one. It must not
// know what is in it.
package privatefile
