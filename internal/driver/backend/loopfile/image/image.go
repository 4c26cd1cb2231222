package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mode keeps the other users of the machine away from the content.
const mode = 0o600

// Create makes a sparse image.
func Create(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = file.Truncate(bytes)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Resize makes an image larger, with a hole at the end. It never makes one
// smaller: that would cut off content.
func Resize(path string, bytes int64) error {
	return with(path, func(file *os.File) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if info.Size() >= bytes {
			return nil
		}
		if err := file.Truncate(bytes); err != nil {
			return err
		}
		return file.Sync()
	})
}

// Allocate reserves space in the pool for all holes of the image, up to a size that the image may
// be expanded to, and for the parts that it shares with other images, so that no later write finds
// the pool full. A copy-on-write pool (btrfs) cannot guarantee this for shared parts. When it
// fails, nothing is reserved beyond the end of the image.
func Allocate(path string, bytes int64) error {
	return with(path, func(file *os.File) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		err = fallocate(file, unix.FALLOC_FL_KEEP_SIZE, max(bytes, info.Size()))
		if err == nil {
			if err = fallocate(file, unix.FALLOC_FL_UNSHARE_RANGE, info.Size()); errors.Is(err, unix.EOPNOTSUPP) {
				err = nil
			}
		}
		if err != nil {
			return errors.Join(&os.PathError{Op: "allocate", Path: path, Err: err}, file.Truncate(info.Size()))
		}
		return file.Sync()
	})
}

func fallocate(file *os.File, mode uint32, bytes int64) error {
	return retryInterrupted(func() error { return unix.Fallocate(int(file.Fd()), mode, 0, bytes) })
}

// Erase makes an image blank again. It is for an image with nothing but the leftovers of an
// interrupted mkfs. The size never changes, since it is stored nowhere else.
func Erase(path string) error {
	return with(path, func(file *os.File) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		err = fallocate(file, hole, max(info.Size(), 1))
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = overwrite(file)
		}
		return err
	})
}

// overwrite writes zeros over all parts that are not holes.
func overwrite(file *os.File) error {
	zeros := make([]byte, chunk)
	return extents(context.Background(), file, func(from, to int64) (more bool, err error) {
		for at := from; at < to && err == nil; at += chunk {
			_, err = file.WriteAt(zeros[:min(chunk, to-at)], at)
		}
		return err == nil, err
	})
}

// Sync writes the page cache of the image.
func Sync(path string) error { return with(path, (*os.File).Sync) }

func with(path string, do func(*os.File) error) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(file), file.Close())
}

func retryInterrupted(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Space is how large an image is and how much of the pool it takes.
type Space struct {
	Size, Allocated int64
}

// Measure looks at an image.
func Measure(path string) (Space, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return Space{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return Space{}, fmt.Errorf("%s is not a regular file", path)
	}
	return Space{Size: stat.Size, Allocated: stat.Blocks * 512}, nil
}

// IsBlank says whether every byte is zero. Holes are not read, so that it is
// quick for an image that was never written to, and it ends at the first other
// byte.
func IsBlank(ctx context.Context, path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	blank := true
	err = extents(ctx, file, func(from, to int64) (more bool, err error) {
		blank, err = zeros(ctx, file, from, to)
		return blank, err
	})
	return blank, err
}

const chunk = 1 << 20

func zeros(ctx context.Context, file *os.File, from, to int64) (bool, error) {
	buffer := make([]byte, min(chunk, to-from))
	for from < to {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := file.ReadAt(buffer[:min(int64(len(buffer)), to-from)], from)
		for _, b := range buffer[:n] {
			if b != 0 {
				return false, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		from += int64(n)
	}
	return true, nil
}

// extents visits the parts of a file that are not holes.
func extents(ctx context.Context, file *os.File, visit func(from, to int64) (more bool, err error)) error {
	return extentsFrom(ctx, file, 0, visit)
}

func extentsFrom(
	ctx context.Context,
	file *os.File,
	at int64,
	visit func(from, to int64) (more bool, err error),
) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, err := file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole up to the end
		}
		if err != nil {
			return err
		}
		to, err := file.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if more, err := visit(from, to); err != nil || !more {
			return err
		}
		at = to
	}
}
