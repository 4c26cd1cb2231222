package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Access says what may be done through the target path.
type Access int

const (
	// ReadWrite leaves reading and writing to the file permissions.
	ReadWrite Access = iota
	// ReadOnly refuses every write through the target path.
	ReadOnly
)

// Mounter makes a directory or a block device appear at a second path.
type Mounter interface {
	// Bind makes source appear at target. The last component of target is
	// created when it is missing: as a directory for a directory, and as a
	// file for a device. Repeating the call is not an error; the last access
	// wins, and that of a device is the same at every path.
	Bind(source, target string, access Access) error
	// Unbind undoes Bind and removes the target path. A target that does
	// not exist is not an error.
	Unbind(target string) error
	// IsBound says whether target shows source.
	IsBound(source, target string) (bool, error)
}

var (
	// ErrOccupied means that the target path holds something else, which
	// is left as it is.
	ErrOccupied = errors.New("target path is occupied")
	// ErrNoParent means that the directory which should hold the target
	// path does not exist.
	ErrNoParent = errors.New("parent directory of the target path does not exist")
	// ErrBusy means that a process still uses the mount.
	ErrBusy = errors.New("a process still uses the mount")
)

// targetMode lets only the owner of the target's parent look inside until
// something is mounted over it, which then brings its own mode.
const targetMode = 0o750

// occupied describes the file or mount that exists at target.
func occupied(target, what string) error {
	return fmt.Errorf("%s is %s: %w", target, what, ErrOccupied)
}

// ensureTarget makes the last component of path, as something over which a
// source of this kind can be mounted. It says whether it had to, so that a
// failing caller can take back exactly what it made.
func ensureTarget(path string, source kind) (created bool, err error) {
	switch err := source.make(path); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%s: %w", filepath.Dir(path), ErrNoParent)
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("make the target path: %w", err)
	}
	return false, nil
}

// mustBeEmpty refuses to hide files below a new mount.
func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the target directory: %w", err)
	}
	if len(entries) > 0 {
		return occupied(dir, fmt.Sprintf("a directory with %d entries", len(entries)))
	}
	return nil
}

// mustBeFree refuses a target over which nothing of this kind can be mounted,
// or where a mount would hide something. It does not follow links: mounting
// through one would mount somewhere else than the caller asked for.
func mustBeFree(path string, source kind) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the target path: %w", err)
	}
	switch {
	case source == directory && info.IsDir():
		return mustBeEmpty(path)
	case source == device && info.Mode().IsRegular() && info.Size() == 0:
		return nil
	case info.Mode().IsRegular() && info.Size() > 0:
		return occupied(path, fmt.Sprintf("a file of %d bytes", info.Size()))
	default:
		return occupied(path, "a "+kindOf(info.Mode()))
	}
}

// removeTarget removes an empty directory, an empty file or a symbolic link.
// Anything else may be a user's data and stays.
func removeTarget(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the target path: %w", err)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
	case info.IsDir():
		if err := mustBeEmpty(path); err != nil {
			return err
		}
	case info.Mode().IsRegular() && info.Size() == 0:
	default:
		return occupied(path, "a "+kindOf(info.Mode()))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the target path: %w", err)
	}
	return nil
}

// RemoveEmpty removes what is left at a target path when its mount is gone: an
// empty directory or file. A path that does not exist is not an error; a link,
// a mount point or anything with content is, and stays.
func RemoveEmpty(path string) error {
	// rmdir(2) removes nothing but an empty directory.
	err := unix.Rmdir(path)
	if errors.Is(err, unix.ENOTDIR) {
		err = removeEmptyFile(path)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func removeEmptyFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > 0 {
		return occupied(path, "a "+kindOf(info.Mode()))
	}
	return unix.Unlink(path) // EBUSY for a mount point
}

// kind is what a source is. A target must be of the like.
type kind int

const (
	directory kind = iota
	device
)

func kindOfSource(path string) (kind, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return directory, fmt.Errorf("look at the source: %w", err)
	case info.IsDir():
		return directory, nil
	case info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0:
		return device, nil
	default:
		return directory, fmt.Errorf(
			"source %s is a %s: it must be a directory or a block device", path, kindOf(info.Mode()),
		)
	}
}

// make makes an empty target.
func (k kind) make(path string) error {
	if k == directory {
		return os.Mkdir(path, targetMode)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, targetMode&0o666)
	if err != nil {
		return err
	}
	return file.Close()
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode.IsRegular():
		return "file"
	case mode.IsDir():
		return "directory"
	default:
		return "special file"
	}
}
