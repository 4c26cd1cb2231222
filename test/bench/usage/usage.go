// Package usage reads how much memory and processor time a process has used, for the benchmarks.
package usage

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/e2e/leftover"
)

// Memory is what is resident of a process, in bytes.
type Memory struct{ Now, Anonymous, Most int64 }

// MemoryOf reads the memory of a process.
func MemoryOf(pid int) (m Memory, err error) {
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
			m.Now = kilobytes << 10
		case "RssAnon:":
			m.Anonymous = kilobytes << 10
		case "VmHWM:":
			m.Most = kilobytes << 10
		}
	}
	return m, nil
}

// CPUOf returns the processor time that a process has used.
func CPUOf(pid int) (time.Duration, error) {
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

// ServersIn returns the process ids of the cluster in a folder: of etcd and of kube-apiserver.
func ServersIn(dir string) (pids map[string]int, err error) {
	processes, err := leftover.Processes(dir)
	if err != nil {
		return nil, err
	}
	pids = map[string]int{}
	for _, p := range processes {
		program, _, _ := strings.Cut(p.Command, " ")
		if name := filepath.Base(program); name == "etcd" || name == "kube-apiserver" {
			pids[name] = p.Pid
		}
	}
	return pids, nil
}
