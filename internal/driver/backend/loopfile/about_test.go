package loopfile

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestAbout(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0", 9: "9", 999: "990", 1 << 10: "1Ki", 1536: "1.5Ki", 10 << 30: "10Gi", 11<<30 - 1: "10Gi", 326 << 30: "320Gi", 1000 << 30: "1000Gi", 1 << 40: "1Ti",
		1<<63 - 1: "8Ei",
	} {
		if got := about(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}

// A claim that waits for room is retried while other volumes are written to. All refusals have the
// same message, so that there is one event.
func TestRefusalsHaveOneMessage(t *testing.T) {
	const gibi = 1 << 30
	said := map[string]bool{}
	for _, free := range []int64{100*gibi + 5, 100*gibi + 1<<20, 100*gibi + 77<<20} {
		var l Promises
		l.Set("a", Entry{Promised: 60 * gibi})
		err := l.Promise("b", 5000*gibi, Disk{Free: free}, 20)
		if !fault.Exhausted.Is(err) || !strings.Contains(err.Error(), "--loopfile-over-commit") || !strings.Contains(err.Error(), "1.8Ti") {
			t.Fatalf("Promise: %v", err)
		}
		said[err.Error()] = true
		space := FreeSpace{Look: func() (Disk, error) { return Disk{Free: free, Used: 10 * gibi}, nil }}
		_, err = space.Book(200 * gibi)
		if !fault.Exhausted.Is(err) {
			t.Fatalf("Book: %v", err)
		}
		said[err.Error()] = true
	}
	if len(said) != 2 {
		t.Errorf("two refusals in %d texts: %v", len(said), said)
	}
}
