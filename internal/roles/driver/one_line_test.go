package driver

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// A joined error has a line for each of its errors. In the driver's log it has one line, wherever
// it is logged, and the line names the caller.
func TestJoinedErrorsAreOneLine(t *testing.T) {
	var lines []string
	log := withOneLineErrors(funcr.New(func(prefix, args string) { lines = append(lines, prefix+args) },
		funcr.Options{LogCaller: funcr.All, Verbosity: 1}))
	joined := errors.Join(errors.New("first"), errors.New("second"))
	log.Error(joined, "in Error")
	log.WithName("name").WithValues("cause", joined).Info("in WithValues")
	log.V(1).Info("in Info", "cause", joined)
	log.Error(nil, "without an error", "n", 1)
	for _, line := range lines[:3] {
		if !strings.Contains(line, "first; second") || strings.Contains(line, `\n`) {
			t.Errorf("logged %s", line)
		}
	}
	for _, line := range lines {
		if !strings.Contains(line, "one_line_test.go") {
			t.Errorf("the caller is not this test: %s", line)
		}
	}
	if got := inOneLine(errors.Join(fs.ErrNotExist, fs.ErrClosed)); !errors.Is(got, fs.ErrClosed) {
		t.Errorf("%v is no fs.ErrClosed", got)
	}
	withOneLineErrors(logr.Discard()).Error(joined, "is dropped")
}
