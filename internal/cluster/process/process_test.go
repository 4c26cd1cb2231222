package process

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds every wait for something that must happen; nothing waits for it when all is well.
const patience = 20 * time.Second

// child starts this test binary in the given role and returns when the role says that it is set up.
func child(t *testing.T, role string) (*Process, *os.File) {
	t.Helper()
	r, w := pipe(t)
	logs := t.TempDir()
	p, err := Start(Config{
		Name: "child", Path: self(t), Args: []string{roleArg, role, logs},
		Log: filepath.Join(logs, "child.log"), Inherit: []*os.File{w},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop(expired()) })
	_ = w.Close()
	readLine(t, r)
	return p, r
}

func TestExitCarriesStateAndLog(t *testing.T) {
	p, _ := child(t, "fail")
	waitDone(t, p)
	exit := p.Exit()
	if exit == nil || exit.State != "exit status 3" {
		t.Fatalf("exit = %v, want status 3", exit)
	}
	for _, want := range []string{"child ended", "exit status 3", "last words", exit.Log} {
		if !strings.Contains(exit.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, exit)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("stopping what has ended: %v", err)
	}
}

func TestStopAsksFirst(t *testing.T) {
	p, _ := child(t, "obedient")
	if p.Exit() != nil {
		t.Fatalf("ended before it was stopped: %v", p.Exit())
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit().State; got != "exit status 0" {
		t.Errorf("state = %q, want a voluntary end", got)
	}
}

func TestStopKillsTheStubborn(t *testing.T) {
	p, _ := child(t, "stubborn")
	err := p.Stop(expired())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "was killed") {
		t.Fatalf("error = %v, want one that says it was killed", err)
	}
	if got := p.Exit().State; got != "signal: killed" {
		t.Errorf("state = %q", got)
	}
}

func TestMissingProgram(t *testing.T) {
	_, err := Start(Config{Name: "ghost", Path: "/nonexistent/ghost", Log: filepath.Join(t.TempDir(), "log")})
	if err == nil || !strings.Contains(err.Error(), "starting ghost") {
		t.Fatalf("error = %v", err)
	}
}

// TestGroup: Ctrl-C signals the terminal's foreground group, which must not contain the child.
func TestGroup(t *testing.T) {
	p, _ := child(t, "obedient")
	group, err := syscall.Getpgid(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if group != p.PID() {
		t.Errorf("process group %d, want its own %d", group, p.PID())
	}
}

// TestSurvivesTheThreadThatStartedIt: the parent-death signal is bound to a thread, and threads end
// all the time.
func TestSurvivesTheThreadThatStartedIt(t *testing.T) {
	var p *Process
	thread := onDoomedThread(func() { p, _ = child(t, "obedient") })
	if t.Failed() {
		return
	}
	waitGone(t, filepath.Join("/proc/self/task", strconv.Itoa(thread)))
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.Exit().State; got != "exit status 0" {
		t.Errorf("state = %q: it died with the thread", got)
	}
}

// TestDiesWithItsParent kills a parent with SIGKILL. Its child holds the pipe: end of file means
// that both are gone.
func TestDiesWithItsParent(t *testing.T) {
	parent, r := child(t, "parent")
	if err := syscall.Kill(parent.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitDone(t, parent)
	if _, err := io.ReadAll(r); err != nil {
		t.Fatalf("the grandchild outlived its parent: %v", err)
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == roleArg {
		os.Exit(play(os.Args[2], os.Args[3]))
	}
	goleak.VerifyTestMain(m)
}
