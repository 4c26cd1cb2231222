package process

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	tailLines = 10
	tailBytes = 16 << 10 // read from the end; ten lines fit unless they are very long
	lineBytes = 400      // a line of a structured log can be very long, and its beginning says what it is about
)

// SetAside renames the log to path.1, which is the one to read after a crash.
func SetAside(path string) error {
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	if err := SetAside(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o600)
}

// Tail returns the last n lines of a log that are not empty. Very long lines are shortened.
func Tail(path string, n int) ([]string, error) {
	end, err := readEnd(path)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(end) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, shorten(line))
		}
	}
	return lines[max(0, len(lines)-n):], nil
}

func readEnd(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	return string(data), err
}

func shorten(line string) string {
	if len(line) <= lineBytes {
		return line
	}
	cut := lineBytes
	for !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "..."
}
