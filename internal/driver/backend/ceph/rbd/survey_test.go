package rbd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

type extents = []backend.Extent

func collect(into *extents) func(backend.Extent) error {
	return func(e backend.Extent) error {
		*into = append(*into, e)
		return nil
	}
}

var older, newer = handle.Snapshot(volume, "older"), handle.Snapshot(volume, "newer")

// snapsOf is what rbd snap ls says of snapshots that were made in this order.
func snapsOf(t *testing.T, objects ...handle.Object) step {
	t.Helper()
	all := []map[string]any{}
	for i, o := range objects {
		namespace := map[string]string{"type": "user"}
		if o.IsMember() {
			namespace = map[string]string{"type": "group", "group": "purser.vol." + o.Snap}
		}
		all = append(all, map[string]any{"id": i + 3, "name": o.Snap, "size": 100, "namespace": namespace})
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return step{Stdout: string(text)}
}

// The objects of an image with stripes do not come in the order of its bytes.
const diff = `[{"offset":40,"length":10,"exists":"true"},{"offset":0,"length":10,"exists":"true"},{"offset":20,"length":10,"exists":"false"}]`

func TestWhatASnapshotHolds(t *testing.T) {
	var s script
	s.add("rbd snap ls", snapsOf(t, older, newer)).add("rbd diff", step{Stdout: diff})
	pool, tools := play(t, s...)
	var got extents
	if err := pool.Allocated(t.Context(), newer, collect(&got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(extents{{Offset: 0, Length: 10}, {Offset: 40, Length: 10}}, got); diff != "" {
		t.Error(diff)
	}
	wantLines(t, tools, "rbd snap ls p/purser.vol --all --format=json", "rbd diff p/purser.vol@"+newer.Snap+" --format=json")
}

// What was discarded is a change, to zeros.
func TestWhatChangedBetweenSnapshots(t *testing.T) {
	var s script
	s.add("rbd snap ls", snapsOf(t, older, newer)).add("rbd diff", step{Stdout: diff})
	pool, tools := play(t, s...)
	var got extents
	if err := pool.Changed(t.Context(), older, newer, collect(&got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(extents{{Offset: 0, Length: 10}, {Offset: 20, Length: 10}, {Offset: 40, Length: 10}}, got); diff != "" {
		t.Error(diff)
	}
	lines := tools.Lines()
	if last, want := lines[len(lines)-1], "rbd diff --from-snap="+older.Snap+" p/purser.vol@"+newer.Snap+" --format=json"; last != want {
		t.Errorf("ran %s, want %s", last, want)
	}
}

func TestNothingChangedSinceItself(t *testing.T) {
	pool, tools := play(t)
	if err := pool.Changed(t.Context(), newer, newer, collect(nil)); err != nil || len(tools.Calls()) > 0 {
		t.Errorf("Changed: %v, %q", err, tools.Lines())
	}
}

func TestSnapshotsThatCannotBeCompared(t *testing.T) {
	group := handle.Member(volume, handle.Group(volume, "group"))
	const gone = "purser-deleted.vol.1a"
	for name, test := range map[string]struct {
		here, deleted []handle.Object
		base, target  handle.Object
		kind          fault.Kind
		part          string
	}{
		"no target":            {here: []handle.Object{older}, base: older, target: newer, kind: fault.NotFound},
		"no base":              {here: []handle.Object{newer}, base: older, target: newer, kind: fault.NotFound},
		"the wrong way round":  {here: []handle.Object{newer, older}, base: older, target: newer, kind: fault.Invalid, part: "the older one as the base"},
		"of two of one name":   {here: []handle.Object{newer}, deleted: []handle.Object{older}, base: older, target: newer, kind: fault.Invalid, part: "one after the other"},
		"a base of a group":    {here: []handle.Object{group, newer}, base: group, target: newer, kind: fault.Unsupported, part: "made with a group"},
		"a target of a group":  {here: []handle.Object{older, group}, base: older, target: group, kind: fault.Unsupported, part: "made with a group"},
		"the program's own no": {here: []handle.Object{older, newer}, base: older, target: newer, kind: fault.Away},
	} {
		var s script
		s.add("rbd snap ls p/purser.vol", snapsOf(t, test.here...)).add("rbd snap ls p/"+gone, snapsOf(t, test.deleted...)).
			add("rbd ls", step{Stdout: `["purser.vol","` + gone + `"]`}).add("rbd diff", step{Status: 110})
		pool, _ := play(t, s...)
		err := pool.Changed(t.Context(), test.base, test.target, collect(&extents{}))
		if !test.kind.Is(err) || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var s script
	s.add("rbd snap ls", snapsOf(t, group))
	pool, _ := play(t, s...)
	if err := pool.Allocated(t.Context(), group, collect(&extents{})); !fault.Unsupported.Is(err) {
		t.Errorf("allocated of a group's: %v", err)
	}
}

// The image of a volume that is deleted meanwhile has another name.
func TestASurveyFindsARenamedImage(t *testing.T) {
	const gone = "purser-deleted.vol.1a"
	here := snapsOf(t, newer)
	here.Times = 1
	var s script
	s.add("rbd snap ls p/purser.vol", here).add("rbd snap ls p/purser.vol", missing).add("rbd snap ls p/"+gone, snapsOf(t, newer)).
		add("rbd ls", step{Stdout: `["` + gone + `"]`}).add("rbd diff p/purser.vol@"+newer.Snap, missing).add("rbd diff", step{Stdout: `[]`})
	pool, tools := play(t, s...)
	if err := pool.Allocated(t.Context(), newer, collect(&extents{})); err != nil {
		t.Errorf("Allocated: %v\n%q", err, tools.Lines())
	}
	lines := tools.Lines()
	if last, want := lines[len(lines)-1], "rbd diff p/"+gone+"@"+newer.Snap+" --format=json"; last != want {
		t.Errorf("ran %s, want %s", last, want)
	}
}
