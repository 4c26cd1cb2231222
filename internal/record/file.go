package record

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Limits bound what a recorder keeps: FILE and one older file, FILE.old.
type Limits struct {
	Size int64         // of both files on disk; 0 for no limit
	Age  time.Duration // of the oldest line; 0 for no limit
}

// File is an [Output] to a file, compressed if its name ends in .gz.
type File struct {
	path    string
	limits  Limits
	file    *os.File
	gz      *gzip.Writer
	buffer  *bufio.Writer
	written *counter
	began   time.Time
}

// counter counts the bytes that reach the disk.
type counter struct {
	to io.Writer
	n  int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

// Create opens a file to append to it. A file whose end is torn, as after a crash, is set aside as
// FILE.old.
func Create(path string, limits Limits, now time.Time) (*File, error) {
	f := &File{path: path, limits: limits}
	whole, err := isWhole(path)
	switch {
	case err != nil:
		return nil, err
	case !whole:
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, fmt.Errorf("set the torn record aside: %w", err)
		}
	}
	return f, f.open(now)
}

// isWhole reports whether a record can be appended to: it is absent or empty, or its last line is
// complete.
func isWhole(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("-o: %w", err)
	}
	defer file.Close()
	var from io.Reader = file
	if isCompressed(path) {
		gz, err := gzip.NewReader(file)
		if errors.Is(err, io.EOF) {
			return true, nil // empty
		}
		if err != nil {
			return false, nil //nolint:nilerr // no record, or torn in its first bytes
		}
		from = gz
	}
	last, buffer := byte('\n'), make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			last = buffer[n-1]
		}
		if errors.Is(err, io.EOF) {
			return last == '\n', nil
		}
		if err != nil {
			return false, nil //nolint:nilerr // torn
		}
	}
}

func isCompressed(path string) bool { return strings.HasSuffix(path, ".gz") }

func (f *File) open(now time.Time) error {
	const mode = 0o600 // names of a cluster's objects
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.file, f.began = file, now
	f.written = &counter{to: file, n: info.Size()}
	var to io.Writer = f.written
	f.gz = nil
	if isCompressed(f.path) {
		f.gz, _ = gzip.NewWriterLevel(f.written, gzip.BestSpeed) // the level is valid
		to = f.gz
	}
	f.buffer = bufio.NewWriterSize(to, 1<<16)
	return nil
}

// Write implements [Output].
func (f *File) Write(line []byte) (int, error) { return f.buffer.Write(line) }

// IsFull implements [Output].
func (f *File) IsFull(now time.Time) bool {
	return f.limits.Size > 0 && f.written.n > f.limits.Size/2 ||
		f.limits.Age > 0 && now.Sub(f.began) > f.limits.Age/2
}

// Rotate implements [Output].
func (f *File) Rotate(now time.Time) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.path+".old"); err != nil {
		return err
	}
	return f.open(now)
}

// Flush implements [Output].
func (f *File) Flush() error {
	err := f.buffer.Flush()
	if f.gz != nil {
		err = errors.Join(err, f.gz.Flush())
	}
	return err
}

// Close implements [Output].
func (f *File) Close() error {
	err := f.buffer.Flush()
	if f.gz != nil {
		err = errors.Join(err, f.gz.Close())
	}
	return errors.Join(err, f.file.Close())
}

// Stream is an [Output] without an end, such as standard output.
type Stream struct{ io.Writer }

// IsFull implements [Output].
func (Stream) IsFull(time.Time) bool { return false }

// Rotate implements [Output].
func (Stream) Rotate(time.Time) error { return nil }

// Flush implements [Output].
func (Stream) Flush() error { return nil }

// Close implements [Output].
func (Stream) Close() error { return nil }
