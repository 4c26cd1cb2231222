package inflight

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestBusySaysWhatRunsAndForHowLong(t *testing.T) {
	now := time.Unix(0, 0)
	table := NewTable(func() time.Time { return now })
	release, err := table.Start("CreateVolume", "vol")
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(3200 * time.Millisecond)
	_, err = table.Start("DeleteVolume", "vol")
	const want = `CreateVolume for "vol" has been running for 3.2s; DeleteVolume has to wait until it is done, try again`
	if !fault.Busy.Is(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	release()
	if _, err := table.Start("DeleteVolume", "vol"); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestARefusedStartClaimsNothing(t *testing.T) {
	table := NewTable(time.Now)
	if _, err := table.Start("NodePublishVolume", "a", "/target"); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Start("NodePublishVolume", "b", "/target"); !fault.Busy.Is(err) {
		t.Fatalf("the same target twice: %v, want busy", err)
	}
	if _, err := table.Start("DeleteVolume", "b"); err != nil {
		t.Errorf("the refused operation kept its first key: %v", err)
	}
}

func TestOthersAreNotHeldUp(t *testing.T) {
	table := NewTable(time.Now)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := table.Start("CreateVolume", key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestOnlyOneAtATime(t *testing.T) {
	table := NewTable(time.Now)
	var inside, most, done atomic.Int32
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range 500 {
				release, err := table.Start("op", "vol", "other")
				if err != nil {
					continue
				}
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				done.Add(1)
				release()
			}
		})
	}
	workers.Wait()
	if most.Load() != 1 || done.Load() == 0 {
		t.Errorf("%d at once, %d in total; want 1 at once and at least 1 in total", most.Load(), done.Load())
	}
	if len(table.running) != 0 {
		t.Errorf("still running: %v", table.running)
	}
}
