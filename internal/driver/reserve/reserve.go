package reserve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

// What a reserve holds: a record takes an inode and a block of 4 KiB.
const (
	bytes  = 2 << 20
	inodes = 16
)

// Reserve is the reserve of a pool. Its state is on disk alone, so that two values for the same
// folder agree. A nil Reserve holds nothing.
type Reserve struct {
	dir string
	// makeLock keeps two callers from making the reserve at once.
	makeLock sync.Mutex
}

// New describes the reserve of a state directory. Nothing is made on disk before Make.
func New(stateDir string) *Reserve { return &Reserve{dir: filepath.Join(stateDir, "reserve")} }

// IsFull says whether an error means that a filesystem has no room, or a quota none.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Do calls small, and once more with the reserve released when the pool was full. It is for calls
// that make one file or name, and for calls that need none but find a full pool all the same.
func (r *Reserve) Do(small func() error) error {
	err := small()
	if !IsFull(err) || !r.release() {
		return err
	}
	return small()
}

// WriteFile is [durable.WriteFile] for a record, with the reserve. The error is fault.Exhausted when
// that does not help.
func (r *Reserve) WriteFile(path, tempDir string, data []byte) error {
	return Classify(path, r.Do(func() error { return durable.WriteFile(path, tempDir, data) }))
}

// Classify makes an error of a full filesystem fault.Exhausted, and leaves others as they are.
func Classify(path string, err error) error {
	if !IsFull(err) || fault.Exhausted.Is(err) {
		return err
	}
	return fault.Exhausted.Errorf("%w; free some space or inodes on the filesystem of %s", err, filepath.Dir(path))
}

func (r *Reserve) blocks() string { return filepath.Join(r.dir, "blocks") }

// files are all files of the reserve. The last one is made last.
func (r *Reserve) files() []string {
	files := []string{r.blocks()}
	for i := range inodes {
		files = append(files, filepath.Join(r.dir, fmt.Sprintf("inode-%02d", i)))
	}
	return files
}

// release removes the reserve, and reports whether there was any. The folder stays: it is needed
// to make the reserve again. The sync makes the filesystem forget the files, as some free their
// blocks not before.
func (r *Reserve) release() (released bool) {
	if r == nil {
		return false
	}
	for _, path := range r.files() {
		if os.Remove(path) == nil {
			released = true
		}
	}
	if released {
		_ = durable.SyncDir(r.dir)
	}
	return released
}

// IsWhole reports whether the reserve is there.
func (r *Reserve) IsWhole() bool {
	if r == nil {
		return true
	}
	info, err := os.Stat(r.blocks())
	if err != nil || info.Size() < bytes {
		return false
	}
	files := r.files()
	_, err = os.Stat(files[len(files)-1])
	return err == nil
}

// Make makes the reserve where it is missing. It reports whether the reserve is there afterwards; a
// pool without room is no error. It tries without measuring first: some filesystems free the space
// of deleted files only when an allocation finds none.
func (r *Reserve) Make() (whole bool, err error) {
	if r == nil {
		return true, nil
	}
	r.makeLock.Lock()
	defer r.makeLock.Unlock()
	if r.IsWhole() {
		return true, nil
	}
	if err := r.fill(); err != nil {
		r.release()
		if IsFull(err) {
			err = nil
		}
		return false, err
	}
	return true, nil
}

func (r *Reserve) fill() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("make the reserve: %w", err)
	}
	for _, path := range r.files() {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil && path == r.blocks() {
			err = allocate(file)
		}
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return fmt.Errorf("make the reserve: %w", err)
		}
	}
	return nil
}

// allocate writes zeros where the filesystem cannot allocate.
func allocate(file *os.File) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, bytes))
	}
	return err
}
