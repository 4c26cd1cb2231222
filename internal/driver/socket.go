package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketMode    = 0o600
	socketDirMode = 0o700
	// dialTimeout bounds the question whether a socket is alive. Connecting
	// to a unix socket does not wait for the other side to accept.
	dialTimeout = time.Second
)

// Listen makes the socket. Every process that may connect to it may delete every volume, so it
// belongs to this user alone from the start.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), socketDirMode); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: restrictMode}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

// restrictMode runs between socket(2) and bind(2): Linux gives the file the
// mode of the socket. Changing the file's mode afterwards would leave a moment
// in which others can connect.
func restrictMode(_, _ string, raw syscall.RawConn) error {
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = unix.Fchmod(int(fd), socketMode) }); err != nil {
		return err
	}
	return failure
}

// removeStale removes the socket of a killed predecessor, and only that: if
// a process answers, or if it is not a socket, it stays.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	connection, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		_ = connection.Close()
		return fmt.Errorf("%s is already served by another driver; stop it or choose another path", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether %s is served by another driver: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of a dead driver: %w", err)
	}
	return nil
}
