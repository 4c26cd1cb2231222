package cephfs_test

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

var (
	snapshot = handle.Snapshot(volume, "s")
	noName   = at("subvolume metadata get", step{Status: 2})
	created  = at("subvolume snapshot info", step{Stdout: `{"created_at":"2026-11-22 08:44:01.123456"}`})
	anything = step{Begins: "ceph"}
)

// The size is that of the source, which the cluster does not tell of a
// snapshot.
func TestASnapshotHasTheSizeOfItsSource(t *testing.T) {
	fs, tools := play(t, noName, created, anything)
	got, err := fs.CreateSnapshot(t.Context(), snapshot, backend.SnapshotRequest{Name: "s", SourceBytes: 7})
	if err != nil || got.SizeBytes != 7 || got.Name != "s" || !got.Ready || got.Created.Year() != 2026 {
		t.Errorf("CreateSnapshot = %+v, %v", got, err)
	}
	for _, call := range tools.Calls() {
		if words := call.Words(); strings.HasPrefix(words, "ceph fs subvolume snapshot metadata set") && !strings.Contains(words, `"bytes":7`) {
			t.Errorf("the record: %s", words)
		}
	}
}

// CreateSnapshot fails unless the record was written and the snapshot can be read.
func TestASnapshotIsMadeWhenAllOfItIsThere(t *testing.T) {
	steps := []string{"subvolume metadata set", "subvolume snapshot create", "subvolume snapshot metadata set", "subvolume snapshot info"}
	for i, fails := range steps {
		fs, tools := play(t, at(fails, step{Status: 28}), noName, created, anything)
		if _, err := fs.CreateSnapshot(t.Context(), snapshot, backend.SnapshotRequest{Name: "s"}); !fault.Exhausted.Is(err) {
			t.Errorf("%s failed: %v, want exhausted", fails, err)
		}
		// The last two are side by side, after a question for the name.
		if want := []int{2, 3, 5, 5}[i]; len(tools.Calls()) != want {
			t.Errorf("%s failed: %q, want %d", fails, words(tools), want)
		}
	}
	// As if one had been asked after the other.
	fs, _ := play(t, at("subvolume snapshot metadata set", step{Status: 28}), at("subvolume snapshot info", step{Status: 2}), noName, anything)
	if _, err := fs.CreateSnapshot(t.Context(), snapshot, backend.SnapshotRequest{Name: "s"}); !fault.Exhausted.Is(err) {
		t.Errorf("both failed: %v, want exhausted", err)
	}
}

// The copy has its record when it has its size and nothing is left of how it
// was made.
func TestACopyIsCompleteAfterItsLastSteps(t *testing.T) {
	for _, fails := range []string{"subvolume info", "subvolume resize", "subvolume snapshot rm"} {
		plan := blueprint()
		plan.Request.Source.Volume, _ = handle.Volume(place, "src").ID()
		fs, tools := play(t,
			at(fails, step{Status: 28}), at("clone status", step{Stdout: `{"status":{"state":"complete"}}`}),
			at("subvolume info", step{Stdout: `{"bytes_quota":7}`}), anything,
		)
		if err := fs.Create(t.Context(), plan); !fault.Exhausted.Is(err) {
			t.Errorf("%s failed: %v, want exhausted", fails, err)
		}
		for _, call := range words(tools) {
			if strings.Contains(call, "metadata set") {
				t.Errorf("%s failed, and then: %s", fails, call)
			}
		}
	}
}
