package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

func size(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
