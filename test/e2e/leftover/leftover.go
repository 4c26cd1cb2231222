package leftover

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Process is one that runs.
type Process struct {
	Pid     int
	Command string // with its arguments
}

// Processes are those whose command line names dir. A process that is dying or was not yet reaped
// has none.
func Processes(dir string) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, err)
		}
		command := strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
		if strings.Contains(command, dir) {
			found = append(found, Process{Pid: pid, Command: command})
		}
	}
	return found, nil
}

// gone reports whether the error is that of reading about a process that has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// mountPoint is the field of a line in proc(5) mountinfo that says where.
const mountPoint = 4

// Mounts are the mount points at or below dir. The path must not have spaces: mountinfo escapes them.
func Mounts(dir string) ([]string, error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer table.Close()
	var found []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > mountPoint && (fields[mountPoint] == dir || strings.HasPrefix(fields[mountPoint], dir+"/")) {
			found = append(found, fields[mountPoint])
		}
	}
	return found, lines.Err()
}
