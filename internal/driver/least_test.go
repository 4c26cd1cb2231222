package driver

import (
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// A request for less than the source has is enough if the source was made for it and rounded up.
func TestSizeOfASource(t *testing.T) {
	source := sourceSize{bytes: 20, least: 10}
	for name, tc := range map[string]struct{ wish, want backend.Range }{ // no want: out of range
		"any size":                 {backend.Range{}, backend.Range{Required: 20}},
		"as the source":            {backend.Range{Required: 10}, backend.Range{Required: 20}},
		"between":                  {backend.Range{Required: 11}, backend.Range{Required: 20}},
		"more":                     {backend.Range{Required: 21}, backend.Range{Required: 21}},
		"less":                     {backend.Range{Required: 9}, backend.Range{}},
		"a limit that is enough":   {backend.Range{Required: 10, Limit: 20}, backend.Range{Required: 20, Limit: 20}},
		"a limit below the source": {backend.Range{Required: 10, Limit: 19}, backend.Range{}},
	} {
		got, err := source.fit(tc.wish)
		switch {
		case tc.want == backend.Range{}:
			if !fault.OutOfRange.Is(err) {
				t.Errorf("%s: %v, %v; want out of range", name, got, err)
			}
		case err != nil || got != tc.want:
			t.Errorf("%s: %v, %v; want %v", name, got, err, tc.want)
		}
	}
}

// upstream's e2e, "volumegroupsnapshottable": a claim of 1Mi, for which the driver makes 2Mi, can be
// restored as a claim of 1Mi, from a snapshot, from the member of a group, and as a clone.
func TestRestoreOfARoundedSize(t *testing.T) {
	const mebi = 1 << 20
	state := filepath.Join(t.TempDir(), "state")
	if err := loopfile.Usable(t.TempDir()); err != nil {
		t.Skip("needs loop devices and mounts: " + err.Error())
	}
	b, err := loopfile.New(loopfile.Config{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, settings{state: state, backend: b})
	ctx := t.Context()
	create := func(name string, bytes int64, source *csi.VolumeContentSource) (*csi.Volume, error) {
		got, err := r.CreateVolume(ctx, &csi.CreateVolumeRequest{
			Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeContentSource: source,
			VolumeCapabilities: []*csi.VolumeCapability{mountCapability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
		})
		return got.GetVolume(), err
	}
	volume, err := create("vol", mebi, nil)
	if err != nil || volume.GetCapacityBytes() != 2*mebi {
		t.Fatalf("%v, %v; the test needs a size that is rounded up", volume, err)
	}
	snapshot, err := r.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: volume.GetVolumeId()})
	if err != nil {
		t.Fatal(err)
	}
	group, err := r.CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{Name: "group", SourceVolumeIds: []string{volume.GetVolumeId()}})
	if err != nil || len(group.GetGroupSnapshot().GetSnapshots()) != 1 {
		t.Fatal(group, err)
	}
	sources := map[string]*csi.VolumeContentSource{"clone": sourceMessage(backend.Source{Volume: backend.IDOf("vol")})}
	for name, s := range map[string]*csi.Snapshot{"snapshot": snapshot.GetSnapshot(), "member": group.GetGroupSnapshot().GetSnapshots()[0]} {
		if s.GetSizeBytes() != mebi {
			t.Errorf("%s: restore size %d, want that of the request", name, s.GetSizeBytes())
		}
		sources[name] = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshotId()},
		}}
	}
	for name, source := range sources {
		for range 2 { // a repeated call gives the same
			got, err := create("from-"+name, mebi, source)
			if err != nil || got.GetCapacityBytes() != 2*mebi {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
		if _, err := create("small-from-"+name, mebi-1, source); status.Code(err) != codes.OutOfRange {
			t.Errorf("%s: a request for less: %v", name, err)
		}
	}
	r.expandedIsItsSize(t, volume.GetVolumeId())
}

// expandedIsItsSize checks that the first request does not count once the volume has grown, and the
// last one does.
func (r *rig) expandedIsItsSize(t *testing.T, id string) {
	t.Helper()
	const mebi = 1 << 20
	for _, step := range []struct {
		name         string
		asked, least int64
	}{{"whole", 10 * mebi, 10 * mebi}, {"part", 20*mebi - 5, 20*mebi - 5}} {
		if _, err := r.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: step.asked},
		}); err != nil {
			t.Fatal(err)
		}
		got, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap-" + step.name, SourceVolumeId: id})
		if err != nil || got.GetSnapshot().GetSizeBytes() != step.least {
			t.Errorf("expanded by %s: %v, %v; want %d", step.name, got, err, step.least)
		}
	}
}
