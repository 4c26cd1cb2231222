package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dyingBound is how long children may take to be gone after their parent was killed.
	dyingBound = 5 * time.Second
	lockPoll   = 10 * time.Millisecond
)

// Lock is the lock of a data folder. The child processes of a cluster hold it too, so that it is
// free only when the last of them has ended. So the next etcd never opens a database that is still
// in use, and the next API server no such port.
type Lock struct {
	dir  string
	file *os.File
}

// LockDir takes the lock on a data folder, which is made where there is none. A folder in use is an
// error at once. If its user was killed, LockDir waits until the kernel has ended the children.
func LockDir(dir string) (*Lock, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("making the data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data folder: %w", err)
	}
	lock := &Lock{dir: dir, file: f}
	if err := lock.take(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return lock, nil
}

// Release releases the lock. Children that still run keep the folder locked.
func (l *Lock) Release() error { return l.file.Close() }

func (l *Lock) take() error {
	for deadline := time.Now().Add(dyingBound); ; time.Sleep(lockPoll) {
		err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return l.sign()
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("locking the data folder %s: %w", l.dir, err)
		}
		pid, command := l.holder()
		if alive(pid) {
			return fmt.Errorf("data folder %s is in use by process %d (%s): stop it, or choose another folder",
				l.dir, pid, command)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("data folder %s is in use by what process %d (%s) left behind: "+
				"end its %s and %s, or choose another folder", l.dir, pid, command, Etcd, APIServer)
		}
	}
}

// sign writes the holder of the lock into the file, for the error message of the next process.
func (l *Lock) sign() error {
	text := fmt.Sprintf("%d\n%s\n", os.Getpid(), strings.Join(os.Args, " "))
	err := l.file.Truncate(0)
	if err == nil {
		_, err = l.file.WriteAt([]byte(text), 0)
	}
	if err != nil {
		return fmt.Errorf("writing the lock of the data folder %s: %w", l.dir, err)
	}
	return nil
}

func (l *Lock) holder() (pid int, command string) {
	text, _ := io.ReadAll(io.NewSectionReader(l.file, 0, 4096)) // empty while the holder is signing
	first, rest, _ := strings.Cut(string(text), "\n")
	pid, _ = strconv.Atoi(first)
	return pid, strings.TrimSpace(rest)
}

func alive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
