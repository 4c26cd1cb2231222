package explain

import "testing"

func TestPercentFor(t *testing.T) {
	for heap, want := range map[uint64]int{0: 1000, 1 << 20: 1000, 16 << 20: 400, 64 << 20: 100, 1 << 30: 100} {
		if got := percentFor(heap); got != want {
			t.Errorf("%d MiB: %d, want %d", heap>>20, got, want)
		}
	}
}

// What is kept can double before it is measured again without a collection for each change.
func TestLimitFor(t *testing.T) {
	for heap, want := range map[uint64]int64{0: 256 << 20, 150 << 20: 556 << 20} {
		if got := limitFor(heap); got != want {
			t.Errorf("%d MiB: %d, want %d", heap>>20, got, want)
		}
	}
}
