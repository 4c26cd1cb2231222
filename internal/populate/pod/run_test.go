package pod

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// The progress is served while the function runs, and the end is in the termination message.
func TestRun(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var at net.Addr
	cfg := Config{ProgressAddress: "127.0.0.1:0", TerminationLog: log, Listened: func(a net.Addr) { at = a }}
	fails := errors.New(strings.Repeat("x", 5000))
	err := Run(t.Context(), cfg, "s",
		func(ctx context.Context, source string, _ Target, progress func(Progress)) error {
			progress(Progress{Done: 3, Total: 7, Again: 2})
			if got, is := ReadProgress(ctx, at.String()); !is || got != (Progress{Done: 3, Total: 7, Again: 2}) ||
				source != "s" {
				t.Errorf("%+v, %t, of %s", got, is, source)
			}
			return fails
		})
	raw, unread := os.ReadFile(log)
	said := populate.ReadTermination(string(raw))
	if !errors.Is(err, fails) || unread != nil || said.Written != 3 || len(said.Problem) != longestProblem {
		t.Errorf("%d bytes written, a problem of %d", said.Written, len(said.Problem))
	}
	if _, is := ReadProgress(t.Context(), at.String()); is {
		t.Error("the progress is served after the end")
	}
	if got := populate.ReadTermination("OOM"); got.Problem != "OOM" {
		t.Errorf("%+v", got)
	}
}
