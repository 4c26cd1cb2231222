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
