package explain

import "testing"

func TestPercentFor(t *testing.T) {
	for heap, want := range map[uint64]int{0: 1000, 1 << 20: 1000, 16 << 20: 400, 64 << 20: 100, 1 << 30: 100} {
		if got := percentFor(heap); got != want {
			t.Errorf("%d MiB: %d, want %d", heap>>20, got, want)
		}
	}
}
