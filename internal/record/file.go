package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
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
	most    int64     // bytes of text that a reader takes
	created time.Time // when the recorder began
	file    *os.File
	gz      *gzip.Writer
	buffer  *bufio.Writer
	written *counter
	began   time.Time // of the oldest line
	opened  int64     // size when the file was opened
	text    int64     // bytes before compression
	begin   int64     // text when the file was opened
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

// mode is that of the files: they have names of a cluster's objects.
const mode = 0o600

// mostTorn bounds the torn files that are kept; then the oldest one is replaced.
const mostTorn = 9

// Create opens a file to append to it. A file whose end is torn, as after a crash, is set aside
// under the name FILE.torn-N.
func Create(path string, limits Limits, now time.Time) (*File, error) {
	f := &File{path: path, limits: limits, most: mostOfFile, created: now}
	found, err := examine(path)
	switch {
	case err != nil:
		return nil, err
	case !found.whole:
		found = existing{}
		if err := os.Rename(path, tornName(path)); err != nil {
			return nil, fmt.Errorf("set the torn record aside: %w", err)
		}
	}
	if found.began.IsZero() {
		found.began = now
	}
	f.text = found.text
	return f, f.open(found.began)
}

// tornName returns the first free name for a torn file; without a free one, that of the oldest.
func tornName(path string) (name string) {
	var oldest time.Time
	for n := 1; n <= mostTorn; n++ {
		candidate := fmt.Sprintf("%s.torn-%d", path, n)
		info, err := os.Lstat(candidate)
		if err != nil {
			return candidate
		}
		if name == "" || info.ModTime().Before(oldest) {
			name, oldest = candidate, info.ModTime()
		}
	}
	return name
}

// existing is what there is of a record.
type existing struct {
	began time.Time // of its first line
	text  int64     // bytes before compression
	whole bool      // it can be appended to: it is absent or empty, or its last line is complete
}

// examine reads a record that may exist.
func examine(path string) (found existing, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return existing{whole: true}, nil
	}
	if err != nil {
		return existing{}, fmt.Errorf("-o: %w", err)
	}
	defer file.Close()
	var from io.Reader = file
	if isCompressed(path) {
		gz, err := gzip.NewReader(file)
		if errors.Is(err, io.EOF) {
			return existing{whole: true}, nil // empty
		}
		if err != nil {
			return existing{}, nil //nolint:nilerr // no record, or torn in its first bytes
		}
		from = gz
	}
	reader := bufio.NewReaderSize(from, 1<<16)
	head, _ := reader.Peek(reader.Size()) // a shorter record has less
	first, _, _ := bytes.Cut(head, []byte("\n"))
	var line struct{ Time time.Time }
	_ = json.Unmarshal(first, &line) // no record: the time is zero
	found.began = line.Time
	last, buffer := byte('\n'), make([]byte, 1<<16)
	for {
		n, err := reader.Read(buffer)
		if n > 0 {
			last = buffer[n-1]
			found.text += int64(n)
		}
		if errors.Is(err, io.EOF) {
			found.whole = last == '\n'
			return found, nil
		}
		if err != nil {
			return found, nil //nolint:nilerr // torn
		}
	}
}

func isCompressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// open opens the file to append to it. began is the time of its oldest line.
func (f *File) open(began time.Time) error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	f.file, f.began, f.opened, f.begin = file, began, info.Size(), f.text
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
func (f *File) Write(line []byte) (int, error) {
	f.text += int64(len(line))
	return f.buffer.Write(line)
}

// IsFull implements [Output]. A file has no more text than can be read.
func (f *File) IsFull(now time.Time) bool {
	return f.limits.Size > 0 && f.written.n > f.limits.Size/2 ||
		f.limits.Age > 0 && now.Sub(f.began) > f.limits.Age/2 || f.text > f.most/8*7
}

// Listed implements [Output]. It refuses objects that leave no room for their changes: each file
// has half of the size, and an eighth of the size is the least for the changes; and as much of the text
// that a reader takes. A file that was continued and has got too large is divided.
func (f *File) Listed() error {
	text := f.text - f.begin
	if text > f.most/4*3 {
		return fmt.Errorf(
			"the objects that exist take %d bytes of text, and a file of more than %d cannot be read; "+
				"record one namespace, with -n", text, f.most,
		)
	}
	if err := f.Flush(); err != nil {
		return err
	}
	objects := f.written.n - f.opened
	if f.limits.Size > 0 && objects > f.limits.Size/8*3 {
		const mebi = 1 << 20
		return fmt.Errorf(
			"--max-size=%d: the objects that exist take %d bytes, and each of two files begins with them; "+
				"give at least %dMi",
			f.limits.Size, objects, objects*3/mebi+1,
		)
	}
	isOver := f.limits.Size > 0 && f.written.n > f.limits.Size/2 || f.text > f.most/8*7
	if isOver && f.opened > 0 {
		return f.divide(text)
	}
	return nil
}

// divide makes FILE.old of what the file had when it was opened, and FILE of what was written since: the
// objects that exist, in so many bytes of text. A crash in between leaves FILE as it was when it was opened.
func (f *File) divide(text int64) error {
	if err := f.Close(); err != nil {
		return err
	}
	part := f.path + ".new"
	if err := f.copyFrom(f.opened, part); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	err := os.Truncate(f.path, f.opened)
	if err == nil {
		err = os.Rename(f.path, f.path+".old")
	}
	if err == nil {
		err = os.Rename(part, f.path)
	}
	if err != nil {
		return err
	}
	f.text = text
	return f.open(f.created)
}

// copyFrom writes the bytes of the file from an offset on to another file.
func (f *File) copyFrom(offset int64, to string) error {
	from, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer from.Close()
	if _, err := from.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}

// Rotate implements [Output].
func (f *File) Rotate(now time.Time) error {
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.path+".old"); err != nil {
		return err
	}
	f.text = 0
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

// Listed implements [Output].
func (Stream) Listed() error { return nil }

// Flush implements [Output].
func (Stream) Flush() error { return nil }

// Close implements [Output].
func (Stream) Close() error { return nil }
