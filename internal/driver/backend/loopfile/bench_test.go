package loopfile

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// What a pod waits for: its volume is made and staged. Unstaging and deleting
// are not in the time.
func BenchmarkCreateAndStage(b *testing.B) {
	for _, inFlight := range []int{1, 16} {
		for name, kind := range kinds {
			b.Run(fmt.Sprintf("%s/%d", name, inFlight), func(b *testing.B) { createAndStage(b, kind.capability, kind.bytes, inFlight) })
		}
	}
}

func createAndStage(b *testing.B, c backend.Capability, bytes int64, inFlight int) {
	r := newRig(b)
	var next atomic.Int64
	var group sync.WaitGroup
	for range inFlight {
		group.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				q := request(fmt.Sprintf("vol-%d", n), c, bytes)
				if _, err := r.Create(b.Context(), q); err != nil {
					b.Error(err)
				}
				if err := r.Stage(b.Context(), r.staging(q.ID, c)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	ids, err := r.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, id := range ids {
		r.unstage(id)
		r.remove(id)
	}
}
