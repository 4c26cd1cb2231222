package process

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Only mappings that equal the program file are released.
func TestPristine(t *testing.T) {
	const smaps = `00400000-01ad7000 r-xp 00000000 08:01 4711                               /usr/bin/pur ser
Size:              23388 kB
Rss:               17500 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01ad7000-033d1000 r--p 016d7000 08:01 4711                               /usr/bin/pur ser
Anonymous:             0 kB
033d1000-03400000 r--p 02fd1000 08:01 4711                               /usr/bin/pur ser
Anonymous:             4 kB
03400000-03477000 rw-p 03000000 08:01 4711                               /usr/bin/pur ser
Anonymous:             0 kB
03477000-054c4000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 08:01 4712                       /usr/lib/other
Anonymous:             0 kB
`
	got, err := pristine(strings.NewReader(smaps), "/usr/bin/pur ser")
	if err != nil {
		t.Fatal(err)
	}
	want := []extent{{0x400000, 0x1ad7000}, {0x1ad7000, 0x33d1000}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(extent{})); diff != "" {
		t.Error(diff)
	}
}

// The running program goes on after the release, with fewer resident pages.
func TestReleaseProgram(t *testing.T) {
	if _, err := os.Stat("/proc/self/smaps"); err != nil {
		t.Skip(err)
	}
	before := residentFile(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	if after := residentFile(t); after >= before {
		t.Errorf("%d kB of files are resident, and were %d", after, before)
	}
}

// residentFile returns RssFile of this process, in kB.
func residentFile(t *testing.T) (kilobytes int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes
}
