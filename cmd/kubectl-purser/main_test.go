package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The plugin has only the commands for users and administrators, and its help says `kubectl purser`.
func TestCommand(t *testing.T) {
	root := command()
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	if !slices.Equal(names, []string{
		"check", "completion", "df", "dump", "explain", "grow", "life", "mcp", "orphans", "record", "report",
		"tree", "ui", "unused", "version",
	}) {
		t.Errorf("commands %v", names)
	}
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"explain", "--help"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "kubectl purser explain [KIND/NAME ...]") ||
		strings.Contains(out.String(), "  purser ") {
		t.Errorf("%v: %s", err, out.String())
	}
	named := regexp.MustCompile(`\bpurser (explain|tree|life|dump|record|df|orphans|grow|check|unused)\b`)
	for _, c := range command().Commands() {
		out.Reset()
		root = command()
		root.SetOut(&out)
		root.SetArgs([]string{c.Name(), "--help"})
		if err := root.Execute(); err != nil || named.MatchString(strings.ReplaceAll(out.String(), "kubectl purser", "")) {
			t.Errorf("help of %s names another program: %v\n%s", c.Name(), err, out.String())
		}
	}
	root = command()
	root.SetArgs([]string{"explain", "--from", "nothing-is-here"})
	root.SetErr(&out)
	if err := root.Execute(); err == nil {
		t.Error("a dump that does not exist is no error")
	}
}

// asProgram in the environment has the test binary be the program.
const asProgram = "KUBECTL_PURSER_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// The first SIGTERM cancels the context. A second one ends the program, whatever it does: here it
// reads a dump that does not end.
func TestSecondSignalEnds(t *testing.T) {
	program := exec.CommandContext(t.Context(), os.Args[0], "explain", "--from", "-")
	program.Env = append(os.Environ(), asProgram+"=1")
	in, err := program.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	// More than a pipe holds: it returns when the program reads, and so has its signal handler.
	if _, err := in.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	resend := time.NewTicker(10 * time.Millisecond)
	defer resend.Stop()
	timeout := time.After(10 * time.Second)
	for {
		select {
		case <-resend.C:
			_ = program.Process.Signal(syscall.SIGTERM) // it may have ended
		case <-ended:
			if status, ok := program.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v, want SIGTERM", program.ProcessState)
			}
			return
		case <-timeout:
			_ = program.Process.Kill()
			t.Fatal("it does not end")
		}
	}
}
