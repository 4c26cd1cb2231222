package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Method is how a copy was made.
type Method string

// The methods.
const (
	// Shared copies have their space in common until one of them is written
	// to. They take milliseconds, whatever the size.
	Shared Method = "shared"
	// Full copies have their own space and take time for every byte.
	Full Method = "full"
)

// Source is an image that is open for copying: it can be copied even when its
// name is removed meanwhile.
type Source struct{ file *os.File }

// Open opens an image for copying.
func Open(path string) (*Source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Source{file}, nil
}

// Close ends it.
func (s *Source) Close() error { return s.file.Close() }

// Size is that of the image.
func (s *Source) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Share makes a copy that shares the space of the source: the content of one
// point in time even while a pod writes.
func (s *Source) Share(path string) error {
	return s.into(path, func(target *os.File) error {
		return unix.IoctlFileClone(int(target.Fd()), int(s.file.Fd()))
	})
}

// CannotShare says whether an error of Share means that this pool shares no
// space, and not that something went wrong.
func CannotShare(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EXDEV) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
}

// Data is how many bytes a full copy has to write.
func (s *Source) Data(ctx context.Context) (bytes int64, err error) {
	err = extents(ctx, s.file, func(from, to int64) (more bool, err error) {
		bytes += to - from
		return true, nil
	})
	return bytes, err
}

// CopyFully makes an image with the content of the source at this moment, as long as no process
// writes to it. It calls ask before each part, with the number of bytes that follow. When it fails,
// a partial copy may be left.
func (s *Source) CopyFully(ctx context.Context, path string, ask func(bytes int64) error) error {
	return s.into(path, func(target *os.File) error {
		size, err := s.Size()
		if err != nil {
			return err
		}
		if err := target.Truncate(size); err != nil {
			return err
		}
		return extents(ctx, s.file, func(from, to int64) (more bool, err error) {
			return true, copyRange(ctx, s.file, target, from, to, ask)
		})
	})
}

func (s *Source) into(path string, fill func(target *os.File) error) error {
	target, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	err = fill(target)
	if err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// step bounds how many bytes are copied between two checks of the context.
const step = 64 << 20

func copyRange(ctx context.Context, from, to *os.File, at, end int64, ask func(bytes int64) error) error {
	return inParts(ctx, at, end, ask, func(at, bytes int64) (int, error) {
		source, target := at, at
		n, err := unix.CopyFileRange(int(from.Fd()), &source, int(to.Fd()), &target, int(bytes), 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return 0, &os.PathError{Op: "copy", Path: from.Name(), Err: err}
		}
		return n, err
	})
}

// inParts calls ask once for each part, and for the next one only when all of it is copied: ask
// assumes that the previous part is written. The kernel may copy fewer bytes than requested, for
// example after a signal. It copies nothing at the end of the source.
func inParts(
	ctx context.Context,
	at, end int64,
	ask func(bytes int64) error,
	copySome func(at, bytes int64) (int, error),
) error {
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := min(at+step, end)
		if err := ask(part - at); err != nil {
			return err
		}
		for at < part {
			n, err := copySome(at, part-at)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil || n == 0:
				return err
			}
			at += int64(n)
		}
	}
	return nil
}

// CanShare tries it with two small files in a folder.
func CanShare(dir string) (bool, error) {
	from, to := filepath.Join(dir, ".share-trial-from"), filepath.Join(dir, ".share-trial-to")
	defer os.Remove(from)
	defer os.Remove(to)
	if err := os.WriteFile(from, make([]byte, 4096), mode); err != nil {
		return false, err
	}
	source, err := Open(from)
	if err != nil {
		return false, err
	}
	defer source.Close()
	err = source.Share(to)
	if CannotShare(err) {
		return false, nil
	}
	return err == nil, err
}
