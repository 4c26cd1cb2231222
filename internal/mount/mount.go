package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Access says what may be done through the target path.
type Access int

const (
	// ReadWrite leaves reading and writing to the file permissions.
	ReadWrite Access = iota
	// ReadOnly refuses every write through the target path.
	ReadOnly
)

// Mounter makes a directory appear at a second path.
type Mounter interface {
	// Bind makes source appear at target. The last component of target is
	// created when it is missing. Repeating the call is not an error; the
	// last access wins.
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

// occupied describes what stands at target in the way.
func occupied(target, what string) error {
	return fmt.Errorf("%s is %s: %w", target, what, ErrOccupied)
}

// ensureDirectory makes the last component of path. It says whether it had
// to, so that a failing caller can take back exactly what it made.
func ensureDirectory(path string) (created bool, err error) {
	switch err := os.Mkdir(path, targetMode); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%s: %w", filepath.Dir(path), ErrNoParent)
	case !errors.Is(err, fs.ErrExist):
		return false, fmt.Errorf("make the target directory: %w", err)
	}
	return false, mustBeDirectory(path)
}

// mustBeDirectory refuses files and symbolic links: mounting through a link
// would mount somewhere else than the caller asked for.
func mustBeDirectory(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the target path: %w", err)
	}
	if !info.IsDir() {
		return occupied(path, "a "+kindOf(info.Mode()))
	}
	return nil
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

// removeTarget removes an empty directory or a symbolic link. Anything else
// may be somebody's data and stays.
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
	default:
		return occupied(path, "a "+kindOf(info.Mode()))
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the target path: %w", err)
	}
	return nil
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
