package faketool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Tools are the played tools of one test.
type Tools struct {
	t   *testing.T
	dir string
	// groups are the expected calls.
	groups [][]string
}

// New installs the tools with a script.
func New(t *testing.T, script ...Step) *Tools {
	t.Helper()
	tools := &Tools{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rbd", "ceph", "rbd-nbd", "rbd-fuse", "ceph-fuse", "mount.ceph"} {
		if err := os.Symlink(self, filepath.Join(tools.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tools.Script(script...)
	return tools
}

// Script replaces the script and forgets the calls.
func (f *Tools) Script(script ...Step) {
	f.t.Helper()
	content, err := json.Marshal(script)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, scriptFile), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	for _, name := range []string{callsFile, groupsFile, endsFile} {
		if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// LookPath finds a tool.
func (f *Tools) LookPath(name string) (string, error) {
	path := filepath.Join(f.dir, name)
	if _, err := os.Lstat(path); err != nil {
		return "", fmt.Errorf("no %s among the played tools: %w", name, err)
	}
	return path, nil
}

// Remove uninstalls a tool.
func (f *Tools) Remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// Break leaves a tool that is there and cannot be started: a script without its interpreter.
func (f *Tools) Break(name string) {
	f.t.Helper()
	f.Remove(name)
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte("#!"+filepath.Join(f.dir, "no-such-interpreter")+"\n"), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

// Environment is what the tools need to know that they are played. Under the
// race detector a program sleeps for a second before it ends, unless this
// is disabled.
func (f *Tools) Environment() []string {
	return []string{variable + "=" + f.dir, "GORACE=atexit_sleep_ms=0"}
}

// Calls are the runs so far.
func (f *Tools) Calls() []Call {
	f.t.Helper()
	calls, err := readCalls(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return calls
}

// Lines are the runs so far, without how the cluster is reached.
func (f *Tools) Lines() (lines []string) {
	for _, call := range f.Calls() {
		lines = append(lines, call.Line())
	}
	return lines
}
