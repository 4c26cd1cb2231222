package ceph

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// putRaw writes onto the device of a volume that is staged for it.
func (r *rig) putRaw(id backend.ID, at int64, content []byte) {
	r.t.Helper()
	path := r.stagingPath(id)
	if err := r.Stage(r.ctx(), backend.Staging{Volume: id, Path: path, Capability: raw}); err != nil {
		r.t.Fatal(err)
	}
	defer r.unstage(id)
	device, err := r.Staged(r.t.Context(), id, path, backend.Block)
	if err != nil {
		r.t.Fatal(err)
	}
	file, err := os.OpenFile(device, os.O_WRONLY|unix.O_SYNC, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(content, at); err != nil {
		r.t.Fatal(err)
	}
}

// covers says whether a byte is in one of the extents.
func covers(all []backend.Extent, at int64) bool {
	for _, e := range all {
		if e.Offset <= at && at < e.End() {
			return true
		}
	}
	return false
}

func collect(into *[]backend.Extent) func(backend.Extent) error {
	return func(e backend.Extent) error {
		*into = append(*into, e)
		return nil
	}
}

// A snapshot tells what it holds and what changed, while its volume lives and
// after that.
func TestWhatSnapshotsOfAnImageHold(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("surveyed", images, func(q *backend.Request) { q.Capabilities = []backend.Capability{raw} }))
	block := bytes.Repeat([]byte("x"), 4096)
	r.putRaw(volume.ID, 9*mebi, block)
	first := r.snapshot("first", volume.ID)
	r.putRaw(volume.ID, 17*mebi, block)
	second := r.snapshot("second", volume.ID)
	look := func() {
		t.Helper()
		var whole, changed, none []backend.Extent
		if err := r.Allocated(r.ctx(), second.ID, 0, collect(&whole)); err != nil || !covers(whole, 9*mebi) || !covers(whole, 17*mebi+4095) {
			t.Errorf("Allocated: %v, %v", whole, err)
		}
		if err := r.Changed(r.ctx(), first.ID, second.ID, 0, collect(&changed)); err != nil || covers(changed, 9*mebi) || !covers(changed, 17*mebi) {
			t.Errorf("Changed: %v, %v", changed, err)
		}
		if err := r.Changed(r.ctx(), second.ID, second.ID, 0, collect(&none)); err != nil || len(none) > 0 {
			t.Errorf("Changed since itself: %v, %v", none, err)
		}
		if err := r.Changed(r.ctx(), second.ID, first.ID, 0, collect(&none)); !fault.Invalid.Is(err) {
			t.Errorf("the wrong way round: %v, want invalid", err)
		}
	}
	look()
	r.delete(volume.ID)
	look()
}

// A clone reads what it has not written of its parent, and for a backup that is
// as much its own.
func TestWhatSnapshotsOfACloneHold(t *testing.T) {
	r := newRig(t)
	asRaw := func(q *backend.Request) { q.Capabilities = []backend.Capability{raw} }
	origin := r.create(r.request("origin", images, asRaw))
	block := bytes.Repeat([]byte("x"), 4096)
	r.putRaw(origin.ID, 9*mebi, block)
	clone := r.create(r.request("clone", images, asRaw, from(r.snapshot("s", origin.ID).ID)))
	first := r.snapshot("first", clone.ID)
	r.putRaw(clone.ID, 9*mebi+8192, block)
	second := r.snapshot("second", clone.ID)
	if _, err := r.Expand(r.ctx(), clone.ID, backend.Range{Required: 64 * mebi}); err != nil {
		t.Fatal(err)
	}
	r.putRaw(clone.ID, 60*mebi, block)
	r.putRaw(clone.ID, 9*mebi, make([]byte, 4096))
	third := r.snapshot("third", clone.ID)
	for _, test := range []struct {
		base, of backend.Snapshot
		want     []int64
	}{
		{of: first, want: []int64{9 * mebi}},
		{of: second, want: []int64{9 * mebi, 9*mebi + 8192}},
		{base: first, of: second, want: []int64{9*mebi + 8192}},
		{base: second, of: third, want: []int64{9 * mebi, 60 * mebi}},
		{base: first, of: third, want: []int64{9 * mebi, 9*mebi + 8192, 60 * mebi}},
	} {
		var got []backend.Extent
		var err error
		if test.base == (backend.Snapshot{}) {
			err = r.Allocated(r.ctx(), test.of.ID, 0, collect(&got))
		} else {
			err = r.Changed(r.ctx(), test.base.ID, test.of.ID, 0, collect(&got))
		}
		for _, at := range test.want {
			if err != nil || !covers(got, at) {
				t.Errorf("%s since %q: %v, %v, want %d in it", test.of.Name, test.base.Name, got, err, at)
			}
		}
		t.Logf("%s since %q: %v", test.of.Name, test.base.Name, got)
	}
}
