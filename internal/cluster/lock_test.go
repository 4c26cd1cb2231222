package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/purser-csi/purser/internal/cluster/process"
)

func TestLockErrorNamesTheHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lock := lockDir(t, dir)
	_, err := LockDir(dir)
	if err == nil {
		t.Fatal("two locks on one folder")
	}
	for _, want := range []string{dir, fmt.Sprintf("process %d", os.Getpid()), filepath.Base(os.Args[0]), "stop it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	release(t, lock)
	release(t, lockDir(t, dir))
}

// TestLockOutlivesItsHolderInTheChildren: the holder was killed, and its children have not ended
// yet.
func TestLockOutlivesItsHolderInTheChildren(t *testing.T) {
	dir := t.TempDir()
	lock := lockDir(t, dir)
	child, err := process.Start(process.Config{
		Name: "child", Path: "/bin/sleep", Args: []string{"3600"},
		Log: filepath.Join(dir, "log"), Inherit: []*os.File{lock.file},
	})
	if err != nil {
		t.Fatal(err)
	}
	pretendHolderIsDead(t, dir)
	release(t, lock)
	if free(dir) {
		t.Error("the lock is free although a child holds it")
	}

	locked := make(chan *Lock)
	go func() {
		defer close(locked)
		locked <- lockDir(t, dir)
	}()
	if err := syscall.Kill(child.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if lock, ok := <-locked; ok {
		release(t, lock)
	}
}

func pretendHolderIsDead(t *testing.T, dir string) {
	t.Helper()
	gone := exec.CommandContext(t.Context(), "/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%d\na killed one\n", gone.Process.Pid)
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// free reports whether no process holds the lock. As children inherit it, none of them is left then.
func free(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return true
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func lockDir(t *testing.T, dir string) *Lock {
	t.Helper()
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func release(t *testing.T, lock *Lock) {
	t.Helper()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}
