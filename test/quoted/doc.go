// Package quoted finds the commands that the pages quote, with the output that a page shows for them.
// Its tests and those of other packages run them, so that a page does not promise a command, a flag or
// an output that is not there any more.
//
// It reads the pages and runs nothing.
package quoted
