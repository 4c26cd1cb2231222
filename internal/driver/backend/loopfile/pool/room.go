package pool

import (
	"sync"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Room books what a call is about to write into the pool. A promise is about
// what may come to be taken; this is about what is taken now: without it a
// copy would take all that there is before it fails, and every pod that writes to
// another volume meanwhile would find the pool full.
type Room struct {
	// Look says how full the filesystem is.
	Look func() (Disk, error)

	mu     sync.Mutex
	booked int64
}

// Reserve is left free: pods write as well, and without asking.
func (d Disk) Reserve() int64 {
	const part, most = 50, 1 << 30
	return min((d.Free+d.Used)/part, most)
}

// Booking is space that is kept for one who writes.
type Booking struct {
	room          *Room
	left, writing int64
}

// Book keeps space, or refuses with fault.Exhausted. The caller that got it calls
// Release when everything is written, or nothing more is.
func (r *Room) Book(bytes int64) (*Booking, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	disk, err := r.Look()
	if err != nil {
		return nil, err
	}
	if room := disk.Free - disk.Reserve() - r.booked; bytes > room {
		return nil, fault.Exhausted.Errorf(
			"about %s have to be written to the pool, and there is room for %s beside what is being written "+
				"and what is left free for the volumes; delete volumes or snapshots, or enlarge the disk",
			about(bytes),
			about(max(0, room)),
		)
	}
	r.booked += bytes
	return &Booking{room: r, left: bytes}, nil
}

// Write says that this much is written next, and that what was said before is
// on the disk, which tells of it from now on. It refuses when others have taken
// the room meanwhile.
func (b *Booking) Write(bytes int64) error {
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	b.written()
	b.writing = bytes
	disk, err := b.room.Look()
	if err != nil {
		return err
	}
	if disk.Free-bytes < disk.Reserve() {
		return fault.Exhausted.Errorf(
			"the pool ran full meanwhile: about %s are free, and %s of them are left to the volumes; "+
				"delete volumes or snapshots, or enlarge the disk",
			about(disk.Free),
			about(disk.Reserve()),
		)
	}
	return nil
}

func (b *Booking) written() {
	done := min(b.writing, b.left)
	b.left -= done
	b.room.booked -= done
	b.writing = 0
}

// Release gives back what was not written.
func (b *Booking) Release() {
	b.room.mu.Lock()
	defer b.room.mu.Unlock()
	b.room.booked -= b.left
	b.left, b.writing = 0, 0
}
