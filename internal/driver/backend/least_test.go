package backend

import "testing"

// A recorded request counts while the backend makes at least this volume from it.
func TestLeastRequest(t *testing.T) {
	const mebi = 1 << 20
	for name, tc := range map[string]struct{ bytes, asked, rounded, want int64 }{
		"rounded up":             {2 * mebi, mebi, 2 * mebi, mebi},
		"to another unit":        {8192, 5000, mebi, 5000},
		"exact":                  {2 * mebi, 2 * mebi, 2 * mebi, 0},
		"without a request":      {2 * mebi, 0, 1024 * mebi, 0},
		"expanded since":         {10 * mebi, mebi, 2 * mebi, 0},
		"asked for more":         {2 * mebi, 3 * mebi, 3 * mebi, 0},
		"the backend refuses it": {2 * mebi, mebi, 0, 0},
	} {
		if got := LeastRequest(tc.bytes, tc.asked, tc.rounded); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	if got := (Volume{CapacityBytes: 2, LeastBytes: 1}).LeastSource(); got != 1 {
		t.Errorf("volume: %d", got)
	}
	if got := (Snapshot{SizeBytes: 2}).LeastSource(); got != 2 {
		t.Errorf("snapshot: %d", got)
	}
}
