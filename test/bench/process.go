package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/e2e/leftover"
)

// memory of a process, in bytes.
type memory struct{ now, anonymous, most int64 }

func memoryOf(pid int) (m memory, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, fmt.Errorf("memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64) // other lines are no numbers
		switch fields[0] {
		case "VmRSS:":
			m.now = kilobytes << 10
		case "RssAnon:":
			m.anonymous = kilobytes << 10
		case "VmHWM:":
			m.most = kilobytes << 10
		}
	}
	return m, nil
}

// cpuOf is the processor time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system, ticksPerSecond = 11, 12, 100
	if len(fields) <= system {
		return 0, fmt.Errorf("processor time: %q is not understood", text)
	}
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// serversIn are the API server and the etcd of a cluster.
func serversIn(dir string) (pids []int, err error) {
	processes, err := leftover.Processes(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		switch program, _, _ := strings.Cut(p.Command, " "); filepath.Base(program) {
		case "etcd", "kube-apiserver":
			pids = append(pids, p.Pid)
		}
	}
	return pids, nil
}
