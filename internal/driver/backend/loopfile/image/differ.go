package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// block is the least part that counts as changed: what filesystems write
	// is hardly ever less.
	block = 4 << 10
	// window is how much of two images is compared at once.
	window = chunk
)

// VisitData visits the parts of an image, from an offset on, that are no holes.
func (s *Source) VisitData(ctx context.Context, from int64, visit func(from, to int64) error) error {
	return extentsFrom(ctx, s.file, from, func(from, to int64) (more bool, err error) {
		return true, visit(from, to)
	})
}

// VisitChanges visits the parts of an image, from an offset on, that are not
// the same in a base. Holes are zeros and are not read; nor is anything where
// both have one. What is behind the end of the base was zeros there.
func (s *Source) VisitChanges(ctx context.Context, base *Source, from int64, visit func(from, to int64) error) error {
	size, err := s.Size()
	if err != nil {
		return err
	}
	was, is := make([]byte, window), make([]byte, window)
	for at := from; at < size; {
		if at, err = nextData(at, size, base.file, s.file); err != nil || at >= size {
			return err
		}
		// Windows begin and end where blocks do, but for the first and last.
		at = max(from, at-at%block)
		end := min(at-at%window+window, size)
		before, now := was[:end-at], is[:end-at]
		if err := errors.Join(load(ctx, base.file, before, at), load(ctx, s.file, now, at)); err != nil {
			return err
		}
		if err := compare(before, now, at, visit); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextData gives the first place, from an offset on, where one of the files has
// data; none where that is behind the end.
func nextData(at, none int64, files ...*os.File) (int64, error) {
	next := none
	for _, file := range files {
		from, err := file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			continue
		}
		if err != nil {
			return 0, err
		}
		next = min(next, from)
	}
	return next, nil
}

// load fills a buffer with a part of a file, and reads only what is no hole.
func load(ctx context.Context, file *os.File, buffer []byte, at int64) error {
	clear(buffer)
	end := at + int64(len(buffer))
	return extentsFrom(ctx, file, at, func(from, to int64) (more bool, err error) {
		if from >= end {
			return false, nil
		}
		_, err = file.ReadAt(buffer[from-at:min(to, end)-at], from)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return to < end, err
	})
}

// compare visits the blocks that differ, those that touch as one.
func compare(before, now []byte, at int64, visit func(from, to int64) error) error {
	if bytes.Equal(before, now) {
		return nil
	}
	end, changed := at+int64(len(now)), int64(-1)
	for from := at; from < end; {
		to := min(from-from%block+block, end)
		same := bytes.Equal(before[from-at:to-at], now[from-at:to-at])
		if !same && changed < 0 {
			changed = from
		}
		if same && changed >= 0 {
			if err := visit(changed, from); err != nil {
				return err
			}
			changed = -1
		}
		from = to
	}
	if changed < 0 {
		return nil
	}
	return visit(changed, end)
}
