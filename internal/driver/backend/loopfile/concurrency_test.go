package loopfile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// Of many concurrent calls, each succeeds or is refused with an error that the caller can act on,
// and at the end nothing is left.
func TestManyCallsAtOnce(t *testing.T) {
	r := newRig(t)
	const workers, calls, names = 16, 25, 8
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 0))
			for range calls {
				name := fmt.Sprintf("vol-%d", random.IntN(names))
				if err := r.anyCall(random, name); err != nil && fault.KindOf(err) == fault.Internal {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	group.Wait()
	ids, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r.unstage(id)
		r.remove(id)
	}
	snapshots, err := r.ListSnapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range snapshots {
		if err := r.DeleteSnapshot(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	r.wantNoDevices()
	for _, dir := range r.folders() {
		wantEntries(t, dir)
	}
	if names := r.promises.Names(); len(names) > 0 {
		t.Errorf("the record of promises still has %q", names)
	}
}

// Read-only calls take no lock. They keep no device open that another call detaches, and use no
// closed device.
func TestReadOnlyCallsKeepNoDeviceOpen(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", blockAccess, mebi))
	device, path := r.stage(v.ID, blockAccess), r.staging(v.ID, blockAccess).Path
	if err := r.drop(v.ID).Release(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Staged(t.Context(), v.ID, path, backend.Block); err != nil || got != device {
		t.Errorf("Staged = %s, %v, want %s", got, err, device)
	}
	if problem, err := r.Health(t.Context(), v.ID); err != nil || problem.Reason != "" {
		t.Errorf("Health = %+v, %v", problem, err)
	}
	if r.held(v.ID) != nil {
		t.Error("a question holds the device")
	}
	r.unstage(v.ID)

	asking, end := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for asking.Err() == nil {
				if _, err := r.Staged(t.Context(), v.ID, path, backend.Block); err != nil && !fault.Unready.Is(err) {
					t.Errorf("Staged: %v", err)
				}
				if _, err := r.Health(t.Context(), v.ID); err != nil {
					t.Errorf("Health: %v", err)
				}
			}
		})
	}
	for range 30 {
		r.stage(v.ID, blockAccess)
		r.unstage(v.ID)
	}
	end()
	group.Wait()
}

// anyCall calls the backend as the driver would: it first checks whether the object exists.
func (r *rig) anyCall(random *rand.Rand, name string) error {
	ctx, c, id := r.Context(), mountOf(filesystem.Ext4), backend.IDOf(name)
	_, err := r.Get(ctx, id)
	if fault.NotFound.Is(err) {
		_, err = r.Create(ctx, request(name, c, 4*mebi))
		// Two were faster than the driver's own claim would allow.
		if err != nil {
			if _, gone := r.Get(ctx, id); gone == nil {
				return nil
			}
		}
		return err
	}
	switch random.IntN(7) {
	case 0:
		return r.Delete(ctx, id)
	case 1, 2:
		return r.Stage(ctx, r.staging(id, c))
	case 3:
		return r.Unstage(ctx, id, r.staging(id, c).Path)
	case 4:
		_, err := r.Expand(ctx, id, backend.Range{Required: random.Int64N(16 * mebi)})
		return err
	case 5:
		snapshot := fmt.Sprintf("snap-%s-%d", name, random.Int())
		_, err := r.snapshot(snapshot, id)
		return err
	default:
		_, err := r.Health(ctx, id)
		return err
	}
}
