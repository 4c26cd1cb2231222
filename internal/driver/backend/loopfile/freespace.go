package loopfile

import (
	"sync"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// FreeSpace books the bytes that a call is about to write into the pool. A promise limits the space
// that volumes may take in future, a booking the space that is written now. Without it a copy would
// fill the pool before it fails, and every pod that writes to another volume meanwhile would get
// ENOSPC.
type FreeSpace struct {
	// Look says how full the filesystem is.
	Look func() (Disk, error)

	mu     sync.Mutex
	booked int64
}

// Reserve is how many bytes are left free for the writes of pods, which are not booked.
func (d Disk) Reserve() int64 {
	const part, most = 50, 1 << 30
	return min((d.Free+d.Used)/part, most)
}

// Booking is space that is reserved for one copy.
type Booking struct {
	space         *FreeSpace
	left, writing int64
}

// Book reserves space, or refuses with fault.Exhausted. The caller calls Release when it has
// finished writing.
func (r *FreeSpace) Book(bytes int64) (*Booking, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	disk, err := r.Look()
	if err != nil {
		return nil, err
	}
	if free := disk.Free - disk.Reserve() - r.booked; bytes > free {
		return nil, fault.Exhausted.Errorf(
			"about %s have to be written to the pool, and there is room for %s beside what is being written "+
				"and what is left free for the volumes; delete volumes or snapshots, or enlarge the disk",
			about(bytes),
			about(max(0, free)),
		)
	}
	r.booked += bytes
	return &Booking{space: r, left: bytes}, nil
}

// Write announces the number of bytes that are written next. The previously announced bytes are on
// the disk now, and count as used space. It refuses if other writers have taken the room meanwhile.
func (b *Booking) Write(bytes int64) error {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	b.written()
	b.writing = bytes
	disk, err := b.space.Look()
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
	b.space.booked -= done
	b.writing = 0
}

// Release ends the reservation of the bytes that were not written.
func (b *Booking) Release() {
	b.space.mu.Lock()
	defer b.space.mu.Unlock()
	b.space.booked -= b.left
	b.left, b.writing = 0, 0
}
