package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// janitorFor names the folder of a cluster to the program that cleans up after
// it.
const janitorFor = "PURSER_TEST_CEPH_JANITOR"

// hasJanitor says that this program has called Main.
var hasJanitor bool

// Main runs the tests. A test's own end can come as a kill or a panic: then
// the kernel ends the cluster, and its clients would hang. So the program is
// started a second time beside itself, and waits for the end of the first to
// sweep up. TestMain calls Main before anything else.
func Main(run func() int) (status int) {
	dir := os.Getenv(janitorFor)
	if dir == "" {
		hasJanitor = true
		return run()
	}
	// The end shows in two ways: a pipe that is closed, and a signal from the
	// kernel. The latter comes even when a thread of the test hangs, which
	// keeps its files open.
	killed, closed := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(killed, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()
	select {
	case <-killed:
	case <-closed:
	}
	if err := Sweep(dir); err != nil {
		return 1
	}
	return 0
}

// startJanitor gives what lets it go.
func startJanitor(dir string) (dismiss func() error, err error) {
	if !hasJanitor {
		return nil, errors.New("TestMain must call cluster.Main")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	janitor := exec.Command(self)
	janitor.Env = append(os.Environ(), janitorFor+"="+dir)
	// A group of its own: an interrupt from the terminal is for the test.
	janitor.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	life, err := janitor.StdinPipe()
	if err != nil {
		return nil, err
	}
	ended, err := startTied(janitor)
	if err != nil {
		return nil, fmt.Errorf("start the program that sweeps up after a kill: %w", err)
	}
	return func() error {
		err := life.Close()
		return errors.Join(err, <-ended)
	}, nil
}

// startTied starts a program whose Pdeathsig is to mean the end of this one.
// The kernel sends it when the thread that started it ends, so that thread
// waits for it.
func startTied(command *exec.Cmd) (ended <-chan error, err error) {
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			done <- command.Wait()
		}
	}()
	return done, <-started
}
