package loopfile

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestLeft(t *testing.T) {
	tests := []struct {
		why        string
		entries    []Entry
		disk       Disk
		overCommit float64
		want       int64
	}{
		{"an empty pool has what is free", nil, Disk{Free: 100, Used: 50}, 1, 100},
		{"times the limit", nil, Disk{Free: 100}, 20, 2000},
		{"a promise counts whole, written or not", []Entry{{Promised: 60}}, Disk{Free: 100}, 1, 40},
		{"what ours took is theirs", []Entry{{Promised: 60, Allocated: 30}}, Disk{Free: 70, Used: 30}, 1, 40},
		{"shared space is not counted twice", []Entry{{60, 30}, {60, 30}}, Disk{Free: 170, Used: 30}, 1, 80},
		{"a limit that was lowered leaves nothing", []Entry{{Promised: 300}}, Disk{Free: 100}, 2, 0},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			var l Promises
			for i, e := range test.entries {
				l.Set(string(rune('a'+i)), e)
			}
			if got := l.Left(test.disk, test.overCommit); got != test.want {
				t.Errorf("Left = %d, want %d", got, test.want)
			}
		})
	}
}

func TestPromise(t *testing.T) {
	var l Promises
	disk := Disk{Free: 100}
	if err := l.Promise("a", 60, disk, 1); err != nil {
		t.Fatal(err)
	}
	if err := l.Promise("b", 50, disk, 1); !fault.Exhausted.Is(err) {
		t.Errorf("more than there is: %v, want exhausted", err)
	}
	if err := l.Promise("a", 100, disk, 1); err != nil {
		t.Errorf("growing by what is left: %v", err)
	}
	l.Remove("a")
	l.Remove("a")
	if err := l.Promise("b", 100, disk, 1); err != nil {
		t.Errorf("after the other is gone: %v", err)
	}
	l.Measured("gone", 5)
	if got := l.Left(disk, 1); got != 0 {
		t.Errorf("Left = %d, want 0", got)
	}
}

// Whatever happens, the totals are the sums of the entries.
func TestTotalsAreSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Promises
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			bytes := rapid.Int64Range(0, 100).Draw(t, "bytes")
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				l.Set(name, Entry{bytes, bytes / 2})
			case 1:
				l.Remove(name)
			case 2:
				l.Measured(name, bytes)
			default:
				_ = l.Promise(name, bytes, Disk{Free: 150}, 1)
			}
		}
		var sum Entry
		for _, e := range l.entries {
			sum.Promised += e.Promised
			sum.Allocated += e.Allocated
		}
		if sum != l.total {
			t.Fatalf("total %+v, the entries are %+v", l.total, sum)
		}
	})
}
