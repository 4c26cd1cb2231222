package rbd_test

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// A name that another snapshot has is found out before anything is written.
func TestANameThatIsTakenWritesNothing(t *testing.T) {
	taken := handle.Snapshot(handle.Volume(place, "other"), "s")
	id, _ := taken.ID()
	pool, tools := play(t,
		step{Begins: "rbd image-meta get p/purser-names", Stdout: id.String() + "\n"},
		step{Begins: "rbd snap ls p/purser.other", Stdout: `[{"id":3,"name":"` + taken.Snap + `","namespace":{"type":"user"}}]`},
	)
	_, err := pool.CreateSnapshot(t.Context(), handle.Snapshot(volume, "s"), backend.SnapshotRequest{Name: "s"})
	if !fault.Incompatible.Is(err) || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("CreateSnapshot: %v, want incompatible", err)
	}
	wantLines(t, tools, "rbd image-meta get p/purser-names "+taken.Snap, "rbd snap ls p/purser.other --all --format=json")
}

// A snapshot without its name or its record must not come into being.
func TestASnapshotComesAfterWhatIsWrittenOfIt(t *testing.T) {
	for _, fails := range []string{"rbd image-meta set p/purser-names", "rbd image-meta set p/purser.vol"} {
		pool, tools := play(t, step{Begins: "rbd image-meta get", Status: 2}, step{Begins: fails, Status: 28}, step{Begins: "rbd"})
		if _, err := pool.CreateSnapshot(t.Context(), handle.Snapshot(volume, "s"), backend.SnapshotRequest{Name: "s"}); !fault.Exhausted.Is(err) {
			t.Errorf("%s failed: %v, want exhausted", fails, err)
		}
		if lines := tools.Lines(); len(lines) != 3 {
			t.Errorf("%s failed: %q, want nothing more", fails, lines)
		}
	}
}

// The record of a snapshot stays for as long as it can be seen.
func TestARecordGoesAfterItsSnapshot(t *testing.T) {
	snapshot := handle.Snapshot(volume, "s")
	pool, tools := play(t,
		step{Begins: "rbd snap ls", Stdout: `[{"id":3,"name":"` + snapshot.Snap + `","namespace":{"type":"user"}}]`},
		step{Begins: "rbd snap rm", Status: 16, Stderr: "protected\n"}, step{Begins: "rbd"},
	)
	if err := pool.DeleteSnapshot(t.Context(), snapshot); !fault.InUse.Is(err) {
		t.Errorf("DeleteSnapshot: %v, want in use", err)
	}
	for _, line := range tools.Lines() {
		if strings.HasPrefix(line, "rbd image-meta remove p/purser.vol") {
			t.Errorf("the record is gone: %s", line)
		}
	}
}

// What is left of a group that was interrupted is none.
func TestAGroupThatIsNotCompleteIsNone(t *testing.T) {
	group := handle.Group(volume, "g")
	id, _ := volume.ID()
	snap := step{Begins: "rbd snap ls", Stdout: `[{"id":3,"size":7,"namespace":{"type":"group","group":"purser.vol.` + group.Snap + `"}}]`}
	whole := step{Begins: "rbd image-meta get p/purser.vol purser.group." + group.Snap, Stdout: `{"format":1,"name":"g","sources":["` + id.String() + `"]}`}
	member := step{Begins: "rbd image-meta get p/purser.vol purser.snap." + group.Snap, Stdout: `{"format":1,"name":"g","group":"x"}`}
	for said, complete := range map[string]bool{
		`[{"snapshot":"snapshots","state":"incomplete"}]`: false,
		`[]`: false,
		`[{"snapshot":"snapshots","state":"ok"}]`:       true,
		`[{"snapshot":"snapshots","state":"complete"}]`: true,
	} {
		pool, _ := play(t, snap, whole, member, step{Begins: "rbd group snap ls", Stdout: said})
		got, err := pool.GetGroup(t.Context(), group)
		if complete && (err != nil || len(got.Snapshots) != 1 || got.Snapshots[0].SizeBytes != 7) || !complete && !fault.NotFound.Is(err) {
			t.Errorf("%s: %+v, %v", said, got, err)
		}
	}
	// The group's own answer counts before those of its members.
	pool, _ := play(t, snap, whole, step{Begins: "rbd image-meta get", Status: 5}, step{Begins: "rbd group snap ls", Status: 110})
	if _, err := pool.GetGroup(t.Context(), group); !fault.Away.Is(err) {
		t.Errorf("a cluster that is away: %v", err)
	}
}
