package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test
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
	janitor.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the terminal is for the test
	life, err := janitor.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := janitor.Start(); err != nil {
		return nil, fmt.Errorf("start the program that sweeps up after a kill: %w", err)
	}
	return func() error { return errors.Join(life.Close(), janitor.Wait()) }, nil
}
