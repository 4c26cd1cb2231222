package filesystem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	freeze = 0xc0045877 // FIFREEZE
	thaw   = 0xc0045878 // FITHAW
)

// Freeze lets a mounted filesystem finish what it is doing and keeps further
// writes waiting until Thaw.
func Freeze(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	// What is written before does not have to be written while pods wait.
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("write what is in memory for %s: %w", path, err)
	}
	if err := ioctl(dir, freeze, nil); err != nil {
		return fmt.Errorf("freeze %s: %w", path, err)
	}
	return nil
}

// Thaw undoes Freeze. What is not frozen is not an error.
func Thaw(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := ioctl(dir, thaw, nil); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("thaw %s: %w", path, err)
	}
	return nil
}
