package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func main() {
	out := flag.String("out", "", "file for the SVG")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := record(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// patience bounds each command.
const patience = 2 * time.Minute

// session has the commands of the recording. `up` runs until the others have ended.
var session = []string{"purser up", "kubectl apply -f examples/stuck.yaml", life.CommandOfStuck}

// home is the folder of the session. Its path is in the picture, and so is no random one.
var home = filepath.Join(os.TempDir(), "purser-recording")

func record(ctx context.Context, out string) error {
	if out == "" {
		return errors.New("-out: missing")
	}
	root, err := stage.Root()
	if err != nil {
		return err
	}
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return fmt.Errorf("%w; another recording runs, or one was killed: remove the folder", err)
	}
	defer os.RemoveAll(home)
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(home, "examples")); err != nil {
		return err
	}
	shot, err := perform(ctx, bin)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(draw(shot)), 0o644) //nolint:gosec // readable by all users
}

// perform plays the session in two terminals, and returns their lines with the times: those of `up`
// until it is ready, then those of the other one.
func perform(ctx context.Context, bin string) ([]line, error) {
	began := time.Now()
	first, second := &terminal{bin: bin, began: began}, &terminal{bin: bin, began: began}
	up, err := first.start(ctx, session[0])
	if err != nil {
		return nil, err
	}
	ready := func() bool { return strings.Contains(first.text(), "Ctrl-C stops everything.") }
	if err := up.await(ctx, ready); err != nil {
		return nil, errors.Join(err, up.stop())
	}
	lines := append(first.lines(), line{at: time.Since(began)})
	for _, text := range session[1:] {
		second.pause()
		p, err := second.start(ctx, text)
		if err == nil {
			err = p.await(ctx, nil)
		}
		if err != nil {
			return nil, errors.Join(err, up.stop())
		}
	}
	return append(lines, second.lines()...), up.stop()
}
