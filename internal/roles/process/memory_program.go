package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The start of a process touches most of its program, half of which is never needed again: the
// other roles, every type of the API, and what is around each page, which the kernel brings in with
// it. Such pages stay the process's until the machine runs short of memory, and count towards the
// memory limit of a container as long.

// letGoOfProgram gives the pages of the program back to the kernel, which has them from the file.
// What is needed comes back by itself, in less than a millisecond altogether.
func letGoOfProgram() error {
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

// mapping is what is there.
type mapping struct {
	extent
	access, path string
}

// pristine are the parts that are as in the file: they cannot be written to, and have never been. A
// debugger's breakpoints and relocations of the linker are in memory only.
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

// mappingOf reads the first line of what smaps tells of a part.
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
