package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

type extents = []backend.Extent

func collect(into *extents) func(backend.Extent) error {
	return func(e backend.Extent) error {
		*into = append(*into, e)
		return nil
	}
}

func (r *rig) allocated(id string, from int64) (found extents, err error) {
	return found, r.Allocated(r.Context(), backend.IDOf(id), from, collect(&found))
}

func (r *rig) changed(base, target string) (found extents, err error) {
	err = r.Changed(r.Context(), backend.IDOf(base), backend.IDOf(target), 0, collect(&found))
	return found, err
}

// put writes into the image of a volume that is not in use.
func (r *rig) put(id backend.ID, at int64, content []byte) {
	r.Helper()
	file, err := os.OpenFile(r.imageOf(id), os.O_WRONLY, 0)
	if err != nil {
		r.Fatal(err)
	}
	_, err = file.WriteAt(content, at)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) mustSnapshot(name string, source backend.ID) {
	r.Helper()
	if _, err := r.snapshot(name, source); err != nil {
		r.Fatal(err)
	}
}

// survey takes three snapshots of a volume that changes in between.
func (r *rig) survey() {
	r.Helper()
	v := r.create(request("vol", blockAccess, 64*mebi))
	r.mustSnapshot("empty", v.ID)
	r.put(v.ID, 8*mebi, bytesOf("first", mebi))
	r.mustSnapshot("first", v.ID)
	if _, err := r.Expand(r.Context(), v.ID, backend.Range{Required: 96 * mebi}); err != nil {
		r.Fatal(err)
	}
	r.put(v.ID, 8*mebi+4096, bytesOf("second", 4096))
	r.put(v.ID, 95*mebi, bytesOf("third", 4096))
	r.mustSnapshot("second", v.ID)

	if got, err := r.allocated("empty", 0); err != nil || len(got) > 0 {
		r.Errorf("empty: %v, %v", got, err)
	}
	wantExtents(r, "allocated", extents{{Offset: 8 * mebi, Length: mebi}, {Offset: 95 * mebi, Length: 4096}})(r.allocated("second", 0))
	wantExtents(r, "resumed", extents{{Offset: 95 * mebi, Length: 4096}})(r.allocated("second", 9*mebi))
	wantExtents(r, "changed", extents{{Offset: 8*mebi + 4096, Length: 4096}, {Offset: 95 * mebi, Length: 4096}})(r.changed("first", "second"))
	wantExtents(r, "from nothing", extents{{Offset: 8 * mebi, Length: mebi}})(r.changed("empty", "first"))
	wantExtents(r, "nothing", nil)(r.changed("second", "second"))
}

func wantExtents(r *rig, why string, want extents) func(extents, error) {
	return func(got extents, err error) {
		r.Helper()
		if err != nil {
			r.Errorf("%s: %v", why, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("%s: %s", why, diff)
		}
	}
}

func TestWhatSnapshotsHold(t *testing.T) { newRig(t).survey() }

// Snapshots that share their space are distinguished as well.
func TestWhatSnapshotsHoldOnEachPool(t *testing.T) {
	for name, pool := range pools {
		t.Run(name, func(t *testing.T) { pool(t).survey() })
	}
}

func TestSurveysOfWhatIsNotThere(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", blockAccess, 4*mebi))
	r.mustSnapshot("snap", v.ID)
	if _, err := r.allocated("missing", 0); !fault.NotFound.Is(err) {
		t.Errorf("allocated: %v, want not found", err)
	}
	for _, pair := range [][2]string{{"missing", "snap"}, {"snap", "missing"}} {
		if _, err := r.changed(pair[0], pair[1]); !fault.NotFound.Is(err) {
			t.Errorf("changed: %v, want not found", err)
		}
	}
	if err := os.Remove(filepath.Join(r.snapshotDir(backend.IDOf("snap")), imageFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.allocated("snap", 0); !fault.Internal.Is(err) {
		t.Errorf("damaged: %v, want internal", err)
	}
}
