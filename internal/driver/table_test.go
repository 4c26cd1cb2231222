package driver

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestBusySaysWhatRunsAndForHowLong(t *testing.T) {
	now := time.Unix(0, 0)
	table := NewInFlight(func() time.Time { return now })
	release, err := table.Start("CreateVolume", Alone("vol"))
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(3200 * time.Millisecond)
	_, err = table.Start("DeleteVolume", Alone("vol"))
	const want = `CreateVolume for "vol" has been running for 3.2s; DeleteVolume has to wait until it is done, try again`
	if !fault.Busy.Is(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	release()
	if _, err := table.Start("DeleteVolume", Alone("vol")); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestARefusedStartClaimsNothing(t *testing.T) {
	table := NewInFlight(time.Now)
	if _, err := table.Start("NodePublishVolume", Alone("a"), Alone("/target")); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Start("NodePublishVolume", Alone("b"), Alone("/target")); !fault.Busy.Is(err) {
		t.Fatalf("the same target twice: %v, want busy", err)
	}
	if _, err := table.Start("DeleteVolume", Alone("b")); err != nil {
		t.Errorf("the refused operation kept its first key: %v", err)
	}
}

func TestOthersAreNotHeldUp(t *testing.T) {
	table := NewInFlight(time.Now)
	for _, key := range []string{"a", "b", "c"} {
		if _, err := table.Start("CreateVolume", Alone(key)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestOnlyOneAtATime(t *testing.T) {
	table := NewInFlight(time.Now)
	var inside, most, done atomic.Int32
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for range 500 {
				release, err := table.Start("op", Alone("vol"), Alone("other"))
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

// Volumes can begin with one snapshot at the same time; it cannot be deleted
// meanwhile.
func TestReadersShare(t *testing.T) {
	table := NewInFlight(time.Now)
	first, err := table.Start("CreateVolume", Alone("a"), Shared("snap"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := table.Start("CreateVolume", Alone("b"), Shared("snap"))
	if err != nil {
		t.Fatalf("a second reader: %v", err)
	}
	first()
	if _, err := table.Start("DeleteSnapshot", Alone("snap")); !fault.Busy.Is(err) {
		t.Errorf("with one reader left: %v, want busy", err)
	}
	second()
	release, err := table.Start("DeleteSnapshot", Alone("snap"))
	if err != nil {
		t.Fatalf("without readers: %v", err)
	}
	if _, err := table.Start("CreateVolume", Shared("snap")); !fault.Busy.Is(err) {
		t.Errorf("a reader while it is deleted: %v, want busy", err)
	}
	release()
	if len(table.running) != 0 {
		t.Errorf("still running: %v", table.running)
	}
}
