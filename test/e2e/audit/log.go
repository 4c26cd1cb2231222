package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Log is the file that an API server writes.
type Log struct {
	Path string
	// Touch makes a request whose URI contains the mark, so that the mark is in the log.
	Touch func(ctx context.Context, mark string) error

	mu   sync.Mutex
	last Mark // the search for the next one begins there
}

// Mark is a place in the log.
type Mark int64

// markTime bounds how long the server takes to log a request after the response.
const markTime = 10 * time.Second

// markLength is long enough for unique marks.
const markLength = 16

// Mark waits until all requests that were answered before are in the log, and returns its end.
func (l *Log) Mark(ctx context.Context) (Mark, error) {
	name := "audit-mark-" + rand.String(markLength)
	if err := l.Touch(ctx, name); err != nil {
		return 0, fmt.Errorf("mark the audit log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.last
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, markTime, true, func(context.Context) (bool, error) {
		if info, err := os.Stat(l.Path); err == nil && info.Size() < int64(l.last) {
			l.last = 0 // a new file, of a server that was started anew
		}
		content, err := l.since(l.last)
		if err != nil {
			return false, err
		}
		at := bytes.Index(content, []byte(name))
		if at < 0 {
			return false, nil
		}
		length := bytes.IndexByte(content[at:], '\n')
		end = l.last + Mark(at+length+1)
		return length >= 0, nil
	})
	if err != nil {
		return 0, fmt.Errorf("mark the audit log: %w", err)
	}
	l.last = end
	return end, nil
}

// since returns the log from a mark on.
func (l *Log) since(from Mark) ([]byte, error) {
	file, err := os.Open(l.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, int64(from), math.MaxInt64-int64(from)))
}

// Between counts the requests from one mark to another.
func (l *Log) Between(from, to Mark) (tally Tally, err error) {
	return tally, l.read(from, to, func(part io.Reader) error {
		tally, err = Count(part)
		return err
	})
}

// Firsts is [Firsts] from one mark to another.
func (l *Log) Firsts(from, to Mark, kind Request) (firsts Moments, err error) {
	return firsts, l.read(from, to, func(part io.Reader) error {
		firsts, err = Firsts(part, kind)
		return err
	})
}

func (l *Log) read(from, to Mark, use func(io.Reader) error) error {
	file, err := os.Open(l.Path)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	defer file.Close()
	return use(io.NewSectionReader(file, int64(from), int64(to-from)))
}
