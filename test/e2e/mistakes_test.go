package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// outcome is how a run of purser ended.
type outcome struct {
	code   int
	stderr string
}

// command runs purser to its end.
type command struct {
	path string
	args []string
	env  []string // instead of ours; nil for ours
}

func (c command) run(t *testing.T) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, c.path, c.args...)
	run.Env = c.env
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	run.Stderr = &stderr
	err := run.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return outcome{code: run.ProcessState.ExitCode(), stderr: stderr.String()}
}

// complaints are the lines of standard error, without the one that points to the help.
func (o outcome) complaints() []string {
	var lines []string
	for line := range strings.Lines(o.stderr) {
		if !strings.HasPrefix(line, "See '") {
			lines = append(lines, line)
		}
	}
	return lines
}

// mustSay compares the outcome with the expected exit code and error output: one line per mistake,
// with all the words.
func (o outcome) mustSay(t *testing.T, code int, lines ...[]string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	got := o.complaints()
	if len(got) != len(lines) || strings.Contains(o.stderr, "goroutine ") {
		t.Fatalf("want %d lines:\n%s", len(lines), o.stderr)
	}
	for i, words := range lines {
		for _, w := range words {
			if !strings.Contains(got[i], w) {
				t.Errorf("no %q in: %s", w, got[i])
			}
		}
	}
}

// The exit codes, which are upstream's (CL-2, CL-4, CL-5).
const (
	failure = 1 // also of a value that is refused
	usage   = 2 // a command line that cannot be parsed
	fatal   = 255
)

// Each mistake gets one line of error output, and no file is created.
func TestMistakes(t *testing.T) {
	t.Parallel()
	purser := filepath.Join(binaries(t), "purser")
	foreign := filepath.Join(t.TempDir(), "config")
	must(t, os.WriteFile(foreign, []byte("mine"), 0o600))
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "thesis.tex"), nil, 0o600))
	deaf := filepath.Join(t.TempDir(), "deaf.sock")
	for _, tc := range []struct {
		name  string
		args  []string
		code  int
		lines [][]string
	}{
		{"unknown flag", []string{"up", "--colour"}, usage, [][]string{{"unknown flag: --colour", "purser up --help"}}},
		{"unknown role", []string{"sail"}, usage, [][]string{{"sail", "purser --help"}}},
		{"help on an unknown role", []string{"help", "sail"}, usage, [][]string{{"sail", "purser --help"}}},
		{"stray argument", []string{"up", "fresh"}, usage, [][]string{{`unexpected argument "fresh"`}}},
		{"value without sense", []string{"up", "--driver-timeout", "soon"}, usage, [][]string{{"--driver-timeout", "soon"}}},
		{"relative address", []string{"up", "--csi-address", "relative"}, failure, [][]string{{"--csi-address", `"relative"`, "absolute"}}},
		{"two mistakes", []string{"up", "--csi-address", "relative", "--driver-timeout", "-1s"}, failure, [][]string{{"--driver-timeout"}, {"--csi-address"}}},
		{"foreign kubeconfig", []string{"up", "--kubeconfig", foreign}, failure, [][]string{{"--kubeconfig", foreign, "choose another path"}}},
		{"long path", []string{"up", "--data-dir", "/tmp/" + strings.Repeat("x", 120)}, failure, [][]string{{"--data-dir", "socket"}}},
		{"foreign folder", []string{"up", "--data-dir", full}, failure, [][]string{{full, "files that 'purser up' did not make"}}},
		{
			"no server listens",
			[]string{"up", "--data-dir", filepath.Join(t.TempDir(), "d"), "--csi-address", deaf, "--driver-timeout", "500ms"},
			failure,
			[][]string{{deaf, "--csi-address", "500ms"}},
		},
		{"driver without endpoint", []string{"driver"}, failure, [][]string{{"--endpoint"}}},
		{"CL-4 two addresses", []string{"csi-provisioner", "--metrics-address=:1", "--http-endpoint=:2"}, failure, [][]string{{"--metrics-address", "--http-endpoint"}}},
		{"CL-5 unknown gate", []string{"csi-provisioner", "--feature-gates=Nonsense=true"}, fatal, [][]string{{"--feature-gates", `unknown feature gate "Nonsense"`, "Topology"}}},
		{"ST-1 odd log format", []string{"csi-provisioner", "--logging-format=poem"}, failure, [][]string{{"poem"}}},
		{"provisioner with mistakes", []string{"csi-provisioner", "--worker-threads", "0", "--timeout", "0s"}, failure, [][]string{{"--worker-threads"}, {"--timeout"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			args := tc.args
			if args[0] == "up" && !strings.Contains(strings.Join(args, " "), "--data-dir") {
				args = append(args, "--data-dir", filepath.Join(dir, "d"))
			}
			command{path: purser, args: args}.run(t).mustSay(t, tc.code, tc.lines...)
			if err := nothingLeft(dir); err != nil {
				t.Error(err)
			}
		})
	}
	if kept, err := os.ReadFile(foreign); err != nil || string(kept) != "mine" {
		t.Errorf("the foreign kubeconfig: %q, %v", kept, err)
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
		t.Errorf("the foreign folder: %v, %v", entries, err)
	}
}

// Without the programs that it starts, up names the missing ones, the searched folders, and how to
// get them.
func TestProgramsMissing(t *testing.T) {
	t.Parallel()
	alone, empty := t.TempDir(), t.TempDir()
	purser := filepath.Join(alone, "purser")
	copyProgram(t, filepath.Join(binaries(t), "purser"), purser)
	dir := filepath.Join(t.TempDir(), "d")
	command{path: purser, args: []string{"up", "--data-dir", dir}, env: []string{"PATH=", "KUBEBUILDER_ASSETS=" + empty}}.run(t).
		mustSay(t, failure, []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", alone, empty, "make cluster-tools", "KUBEBUILDER_ASSETS"})
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	source, err := os.Open(from)
	must(t, err)
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	must(t, err)
	_, err = io.Copy(target, source)
	must(t, errors.Join(err, target.Close()))
}

// Two clusters in one folder would corrupt its data: the second is refused, and the error names the
// first.
func TestFolderInUse(t *testing.T) {
	t.Parallel()
	s := shared(t)
	command{path: filepath.Join(s.Bin, "purser"), args: []string{"up", "--data-dir", s.DataDir}}.run(t).
		mustSay(t, failure, []string{s.DataDir, fmt.Sprintf("process %d", s.Pid())})
	newTestNamespace(t, s).passBy(t, "undisturbed")
}
