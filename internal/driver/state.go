package driver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// stateMode keeps other users away from the volumes below the state
// directory, which are themselves open to every user id.
const stateMode = 0o700

// lockState locks the state directory for this process. The kernel releases the lock when the
// process dies, even by SIGKILL.
func lockState(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, stateMode); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the state directory: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		return nil, lockFailure(dir, file, err)
	}
	noteOwner(file)
	return func() { _ = file.Close() }, nil
}

func lockFailure(dir string, file io.Reader, err error) error {
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("lock the state directory %s: %w", dir, err)
	}
	owner, _ := io.ReadAll(file)
	return fmt.Errorf(
		"state directory %s is in use by another driver (process %s); stop it, or choose another state directory",
		dir,
		strings.TrimSpace(string(owner)),
	)
}

// noteOwner writes the owner of the lock for the error message of other processes.
func noteOwner(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = fmt.Fprintln(file, os.Getpid())
	}
}
