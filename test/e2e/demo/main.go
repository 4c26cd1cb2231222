// Command demo runs `purser up` and narrates the life of a volume on it. It ends with 1 if any step
// did not happen.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

func main() { os.Exit(run()) }

func run() int {
	ctrllog.SetLogger(logr.Discard()) // the demo narrates what its clients do
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := perform(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "\ndemo: interrupted")
		return 1
	case err != nil:
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		return 1
	}
	fmt.Println("\nEvery step happened. Now for yourself: bin/purser up --ui")
	fmt.Println("\nWhat has happened, for a browser: file://" + report)
	return 0
}

// perform runs the demo in a new folder, which is kept after an error, for its logs. It returns the
// path of a report of the first cluster, which stays.
func perform(ctx context.Context) (report string, err error) {
	dir, err := os.MkdirTemp("", "purser-demo-")
	if err != nil {
		return "", err
	}
	kept, err := os.MkdirTemp("", "purser-report-")
	if err != nil {
		return "", err
	}
	recorded := filepath.Join(kept, "record.jsonl.gz")
	report = filepath.Join(kept, "report.html")
	err = play(ctx, dir, recorded)
	if err != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%w\nthe logs are in %s", err, filepath.Join(dir, "logs"))
	}
	if err == nil {
		err = writeReport(ctx, recorded, report)
	}
	return report, errors.Join(err, os.RemoveAll(dir))
}

// writeReport writes the pages of a record into a file.
func writeReport(ctx context.Context, recorded, report string) error {
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, filepath.Join(bin, "purser"), "report", "--from", recorded, "-o", report)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("report: %w: %s", err, out)
	}
	return nil
}

// play runs the chapters, and records the first cluster into a file.
func play(ctx context.Context, dir, recorded string) error {
	root, err := stage.Root()
	if err != nil {
		return err
	}
	bin, err := stage.Bin()
	if err != nil {
		return err
	}
	fmt.Println("$ purser up --data-dir", dir)
	endpoint, err := scrape.FreeAddress()
	if err != nil {
		return err
	}
	s, err := stage.Start(ctx, stage.Config{
		Bin: bin, DataDir: dir, Echo: os.Stdout, Args: []string{"--http-endpoint", endpoint},
	})
	if err != nil {
		return err
	}
	recorder, err := stage.Launch(stage.Command{Path: filepath.Join(bin, "purser"), Output: io.Discard, Args: []string{
		"record", "--kubeconfig", s.Kubeconfig(), "--role-endpoint", "http://" + endpoint, "-o", recorded,
	}})
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	fmt.Println("The life of a volume:")
	err = narrate(ctx, (&life.Life{Stage: s, Examples: filepath.Join(root, "examples")}).Steps())
	if err == nil {
		err = playCopies(ctx, s, filepath.Join(root, "examples"))
	}
	fmt.Println()
	if err := errors.Join(err, recorder.Stop(), s.Stop()); err != nil {
		return err
	}
	return playZones(ctx, bin, filepath.Join(root, "examples"), dir)
}

// playCopies is the chapter about a snapshot and a volume that is restored from it.
func playCopies(ctx context.Context, s *stage.Stage, examples string) error {
	c := &life.Copies{Stage: s, Examples: examples}
	possible, err := c.Possible(ctx)
	if err != nil {
		return err
	}
	fmt.Println("\nA snapshot, and a volume restored from it:")
	if !possible {
		fmt.Println("    skipped: volumes are directories without root, and the driver takes no snapshots of those")
		return nil
	}
	return narrate(ctx, c.Steps())
}

// playZones is the chapter about two zones, of which one is full. It has a cluster of its own.
func playZones(ctx context.Context, bin, examples, dir string) error {
	args := append([]string{"--fresh"}, life.ArgumentsOfZones()...)
	fmt.Println("\n$ purser up --data-dir", dir, strings.Join(args, " "))
	s, err := stage.Start(ctx, stage.Config{Bin: bin, DataDir: dir, Echo: os.Stdout, Args: args})
	if err != nil {
		return err
	}
	fmt.Println("Two zones, one full:")
	err = narrate(ctx, (&life.Zones{Stage: s, Examples: examples}).Steps())
	if err == nil {
		err = explain(ctx, &life.Stuck{Stage: s, Examples: examples})
	}
	fmt.Println()
	return errors.Join(err, s.Stop())
}

// explain ends the demo with a claim that is stuck, and why.
func explain(ctx context.Context, s *life.Stuck) error {
	fmt.Println("\nAnd a claim that is stuck:")
	text, err := s.Explain(ctx)
	fmt.Printf("\n$ %s\n%s", life.CommandOfStuck, text)
	return err
}

// narrate prints each step with the time that it took.
func narrate(ctx context.Context, steps []life.Step) error {
	began := time.Now()
	for _, step := range steps {
		stepBegan := time.Now()
		seen, err := step.Run(ctx)
		took := time.Since(stepBegan)
		if err != nil {
			fmt.Printf("  %s %7.3fs  %s\n", paint("31", "✗"), took.Seconds(), step.Name)
			return fmt.Errorf("%s did not happen: %w", step.Name, err)
		}
		fmt.Printf("  %s %7.3fs  %s\n%s%s\n", paint("32", "✓"), took.Seconds(), step.Name, indent, seen)
	}
	fmt.Printf("    %7.3fs  in all\n", time.Since(began).Seconds())
	return nil
}

const indent = "              "

func paint(colour, text string) string {
	if !term.IsTerminal(int(os.Stdout.Fd())) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\033[" + colour + "m" + text + "\033[0m"
}
