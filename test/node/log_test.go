package node

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// testLogger writes to standard output: parts may log after the test.
func testLogger(t *testing.T) logr.Logger {
	name := t.Name()
	return funcr.New(func(prefix, args string) { println(name, prefix, args) }, funcr.Options{Verbosity: 1})
}

// quiet drops what is logged. Unlike logr.Discard it is a logger that was given: roles set up the
// process-wide one without it, which works once.
func quiet() logr.Logger { return funcr.New(func(string, string) {}, funcr.Options{}) }
