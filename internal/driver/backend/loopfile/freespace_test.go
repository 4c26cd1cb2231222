package loopfile

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// freeSpaceOf has a disk of 1000 bytes, of which 20 are left free.
func freeSpaceOf(free *int64) *FreeSpace {
	return &FreeSpace{Look: func() (Disk, error) { return Disk{Free: *free, Used: 1000 - *free}, nil }}
}

func TestRoom(t *testing.T) {
	free := int64(500)
	r := freeSpaceOf(&free)
	if _, err := r.Book(481); !fault.Exhausted.Is(err) {
		t.Errorf("into the reserve: %v, want exhausted", err)
	}
	first, err := r.Book(300)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Book(181); !fault.Exhausted.Is(err) {
		t.Errorf("what is booked already: %v, want exhausted", err)
	}
	if err := first.Write(100); err != nil {
		t.Fatal(err)
	}
	free -= 100 // written
	if err := first.Write(100); err != nil {
		t.Fatal(err)
	}
	// 400 free, 200 still booked, 20 reserved: what is written is not counted
	// twice.
	second, err := r.Book(180)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Book(1); !fault.Exhausted.Is(err) {
		t.Errorf("one more: %v, want exhausted", err)
	}
	first.Release()
	first.Release() // may be repeated
	second.Release()
	if last, err := r.Book(380); err != nil {
		t.Errorf("after the release: %v", err)
	} else if err := last.Write(380); err != nil {
		t.Error(err)
	}
}

// A pod fills the pool while a copy is made.
func TestRoomThatIsTakenMeanwhile(t *testing.T) {
	free := int64(500)
	b, err := freeSpaceOf(&free).Book(300)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Write(100); err != nil {
		t.Fatal(err)
	}
	free = 119
	if err := b.Write(100); !fault.Exhausted.Is(err) {
		t.Errorf("%v, want exhausted", err)
	}
}

func TestReserve(t *testing.T) {
	for _, test := range []struct{ free, used, want int64 }{{100, 900, 20}, {0, 0, 0}, {1 << 40, 1 << 40, 1 << 30}} {
		if got := (Disk{Free: test.free, Used: test.used}).Reserve(); got != test.want {
			t.Errorf("of %d and %d: %d, want %d", test.free, test.used, got, test.want)
		}
	}
}
