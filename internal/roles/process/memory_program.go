package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// At its start a process reads most of its program file into memory. Half of these pages are never
// needed again: the other roles, every API type, and the pages that the kernel reads ahead. They
// stay resident until the machine runs short of memory, and count towards the memory limit of the
// container.

// releaseProgram releases the resident pages of the program file. The kernel reads those that are
// needed again from the file, in less than a millisecond altogether.
func releaseProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	parts, err := pristine(file, program)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, part.from, part.to-part.from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise %x-%x: %w", part.from, part.to, errno)
		}
	}
	return nil
}

// extent is a part of the address space.
type extent struct{ from, to uintptr }

// mapping is one entry of smaps.
type mapping struct {
	extent
	access, path string
}

// pristine returns the mappings that equal the file: they are read-only and have no private pages.
// Breakpoints of a debugger and relocations of the linker are in memory only, so their pages must
// stay.
func pristine(smaps io.Reader, program string) (parts []extent, err error) {
	var current *extent // of the program, and read-only
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		line := lines.Text()
		if m, ok := mappingOf(line); ok {
			if current = nil; m.path == program && !strings.Contains(m.access, "w") {
				current = &m.extent
			}
			continue
		}
		if fields := strings.Fields(line); current != nil && len(fields) > 1 && fields[0] == "Anonymous:" &&
			fields[1] == "0" {
			parts = append(parts, *current)
		}
	}
	return parts, lines.Err()
}

// mappingOf parses the first line of an entry of smaps.
func mappingOf(line string) (m mapping, ok bool) {
	var offset, device, inode string
	if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &m.access, &offset, &device, &inode); n < 6 {
		return m, false
	}
	if at := strings.IndexByte(line, '/'); at >= 0 {
		m.path = line[at:]
	}
	return m, true
}
