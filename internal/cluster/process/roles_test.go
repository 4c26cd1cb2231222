package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const roleArg = "test-child-role"

// play is what the test binary does when it is started as a child. It reports on the inherited pipe
// once set up.
func play(role, logs string) int {
	ready := os.NewFile(3, "ready")
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	switch role {
	case "fail":
		fmt.Println("last words")
		say(ready)
		return 3
	case "obedient":
		say(ready)
		<-term
		return 0
	case "parent":
		return playParent(ready, logs)
	default:
		say(ready)
		for range term {
		}
		return 0
	}
}

// say reports on the pipe. The reader at the other end sees the end of the process.
func say(ready *os.File) { _, _ = fmt.Fprintln(ready, "ready") }

// playParent starts a stubborn child, which reports in its place.
func playParent(ready *os.File, logs string) int {
	path, err := os.Executable()
	if err != nil {
		return 1
	}
	p, err := Start(Config{
		Name: "grandchild", Path: path, Args: []string{roleArg, "stubborn", logs},
		Log: filepath.Join(logs, "grandchild.log"), Inherit: []*os.File{ready},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	<-p.Done()
	return 1
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return r, w
}

func readLine(t *testing.T, r *os.File) {
	t.Helper()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatalf("the child did not say that it was set up: %v", err)
	}
}

func waitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the child did not end")
	}
}

func waitGone(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	t.Fatalf("%s is still there", path)
}

// onDoomedThread runs f on a thread that ends afterwards, and returns the thread's id.
func onDoomedThread(f func()) int {
	thread := make(chan int, 1)
	go func() {
		defer close(thread)    // also when f ends the goroutine
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if syscall.Gettid() == syscall.Getpid() {
			thread <- onDoomedThread(f) // the main thread never ends; this goroutine keeps it while another one tries
			runtime.UnlockOSThread()
			return
		}
		f()
		thread <- syscall.Gettid()
	}()
	return <-thread
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
