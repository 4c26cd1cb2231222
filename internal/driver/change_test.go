package driver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/backend"
)

func idOf(t *testing.T, r *rig, id string) backend.ID {
	t.Helper()
	parsed, err := backend.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func snapshotSource(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

func volumeSource(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

func (r *rig) snapshot(t *testing.T, name, volume string) string {
	t.Helper()
	response, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	wantCode(t, err, codes.OK)
	return response.GetSnapshot().GetSnapshotId()
}

// 3.1 CreateVolume with a source: 3, 5, 6, 11.
func TestCreateWithASource(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	volume := r.create(t, "vol")
	snapshot := r.snapshot(t, "snap", volume)
	tests := []struct {
		why    string
		source *csi.VolumeContentSource
		size   *csi.CapacityRange
		code   codes.Code
		part   string
	}{
		{"a snapshot", snapshotSource(snapshot), nil, codes.OK, ""},
		{"a volume", volumeSource(volume), nil, codes.OK, ""},
		{"larger", volumeSource(volume), &csi.CapacityRange{RequiredBytes: 2 << 30}, codes.OK, ""},
		{"smaller", volumeSource(volume), &csi.CapacityRange{RequiredBytes: 1}, codes.OutOfRange, "source has 1073741824 bytes"},
		{"limited", snapshotSource(snapshot), &csi.CapacityRange{LimitBytes: 1}, codes.OutOfRange, "limit_bytes 1"},
		{"no such snapshot", snapshotSource("other"), nil, codes.NotFound, `snapshot "other"`},
		{"no such volume", volumeSource("other"), nil, codes.NotFound, `volume "other"`},
		{"no snapshot id", snapshotSource(""), nil, codes.InvalidArgument, "snapshot_id"},
		{"no volume id", volumeSource(""), nil, codes.InvalidArgument, "volume_id"},
		{"nothing of ours", snapshotSource("../x"), nil, codes.NotFound, ""},
		{"no type", &csi.VolumeContentSource{}, nil, codes.InvalidArgument, "volume_content_source.type"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			request := createRequest("copy of " + test.why)
			request.VolumeContentSource, request.CapacityRange = test.source, test.size
			response, err := r.CreateVolume(t.Context(), request)
			wantCode(t, err, test.code, test.part)
			if test.code != codes.OK {
				return
			}
			v := response.GetVolume()
			if v.GetContentSource().String() != test.source.String() || v.GetCapacityBytes() < 1<<30 {
				t.Errorf("made %v", v)
			}
			again, err := r.CreateVolume(t.Context(), request)
			wantCode(t, err, codes.OK)
			if again.GetVolume().GetVolumeId() != v.GetVolumeId() {
				t.Errorf("again: %v", again)
			}
			request.VolumeContentSource = snapshotSource("another")
			_, err = r.CreateVolume(t.Context(), request)
			wantCode(t, err, codes.AlreadyExists, "it began with")
		})
	}
}

// A repeated CreateVolume succeeds after its source was deleted: the volume exists, and would leak
// otherwise.
func TestCreateAgainWithoutItsSource(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	snapshot := r.snapshot(t, "snap", r.create(t, "vol"))
	request := createRequest("copy")
	request.VolumeContentSource = snapshotSource(snapshot)
	for range 2 {
		_, err := r.CreateVolume(t.Context(), request)
		wantCode(t, err, codes.OK)
		_, err = r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
		wantCode(t, err, codes.OK)
	}
}

func TestSnapshotAgainWithoutItsSource(t *testing.T) {
	r, s, _ := onShelf(t, settings{})
	volume := r.create(t, "vol")
	r.snapshot(t, "snap", volume)
	r.delete(t, volume)
	r.snapshot(t, "snap", volume)
	if count := len(slices.DeleteFunc(s.calls, func(call string) bool { return call != "CreateSnapshot" })); count != 1 {
		t.Errorf("made %d times", count)
	}
	_, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "another", SourceVolumeId: volume})
	wantCode(t, err, codes.NotFound, volume)
}

// 3.1 CreateSnapshot, DeleteSnapshot, GetSnapshot.
func TestSnapshotCodes(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	volume, other := r.create(t, "vol"), r.create(t, "other")
	create := func(name, volume string) error {
		_, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
		return err
	}
	wantCode(t, create("", volume), codes.InvalidArgument, "name")
	wantCode(t, create("snap", ""), codes.InvalidArgument, "source_volume_id")
	wantCode(t, create("snap", "missing"), codes.NotFound, "missing")
	wantCode(t, create("snap", "../x"), codes.NotFound)
	wantCode(t, create("snap", volume), codes.OK)
	wantCode(t, create("snap", volume), codes.OK)
	wantCode(t, create("snap", other), codes.AlreadyExists, `one of volume "vol", not "other"`)
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "snap": codes.OK, "missing": codes.NotFound, "../x": codes.NotFound} {
		response, err := r.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
		wantCode(t, err, code)
		if s := response.GetSnapshot(); code == codes.OK && (s.GetSourceVolumeId() != volume || !s.GetReadyToUse() || s.GetCreationTime() == nil) {
			t.Errorf("got %v", s)
		}
	}
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "snap": codes.OK, "missing": codes.OK, "../x": codes.OK} {
		_, err := r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		wantCode(t, err, code)
	}
}

func TestListSnapshots(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	one, two := r.create(t, "one"), r.create(t, "two")
	for _, name := range []string{"a", "b", "c"} {
		r.snapshot(t, name+"-one", one)
		r.snapshot(t, name+"-two", two)
	}
	tests := []struct {
		id, source string
		size       int32
		want       []string
	}{
		{"", "", 0, []string{"a-one", "a-two", "b-one", "b-two", "c-one", "c-two"}},
		{"", "", 1, []string{"a-one", "a-two", "b-one", "b-two", "c-one", "c-two"}},
		{"", two, 2, []string{"a-two", "b-two", "c-two"}},
		{"", two, 3, []string{"a-two", "b-two", "c-two"}},
		{"b-one", "", 0, []string{"b-one"}},
		{"b-one", two, 0, nil},
		{"missing", "", 0, nil},
		{"../x", "", 0, nil},
		{"", "missing", 0, nil},
	}
	for _, test := range tests {
		var got []string
		request := &csi.ListSnapshotsRequest{SnapshotId: test.id, SourceVolumeId: test.source, MaxEntries: test.size}
		for {
			response, err := r.ListSnapshots(t.Context(), request)
			wantCode(t, err, codes.OK)
			if n := len(response.GetEntries()); test.size > 0 && n > int(test.size) {
				t.Errorf("%+v: a page of %d", test, n)
			}
			for _, entry := range response.GetEntries() {
				got = append(got, entry.GetSnapshot().GetSnapshotId())
			}
			if request.StartingToken = response.GetNextToken(); request.StartingToken == "" {
				break
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	_, err := r.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{StartingToken: "b-one"})
	wantCode(t, err, codes.Aborted, "starting_token")
}

// 3.1 ControllerExpandVolume: 3, 5, 11, and already large enough.
func TestControllerExpandVolumeCodes(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	id := r.create(t, "vol")
	tests := []struct {
		id   string
		size *csi.CapacityRange
		code codes.Code
		want int64
	}{
		{"", &csi.CapacityRange{RequiredBytes: 1}, codes.InvalidArgument, 0},
		{id, nil, codes.InvalidArgument, 0},
		{id, &csi.CapacityRange{RequiredBytes: -1}, codes.InvalidArgument, 0},
		{"missing", &csi.CapacityRange{RequiredBytes: 1}, codes.NotFound, 0},
		{id, &csi.CapacityRange{RequiredBytes: 1}, codes.OK, 1 << 30},
		{id, &csi.CapacityRange{RequiredBytes: 2 << 30}, codes.OK, 2 << 30},
		{id, &csi.CapacityRange{RequiredBytes: 2 << 30}, codes.OK, 2 << 30},
		{id, &csi.CapacityRange{LimitBytes: 1 << 30}, codes.OutOfRange, 0},
	}
	for _, test := range tests {
		response, err := r.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: test.id, CapacityRange: test.size})
		wantCode(t, err, test.code)
		if err == nil && (response.GetCapacityBytes() != test.want || !response.GetNodeExpansionRequired()) {
			t.Errorf("%v: %v", test.size, response)
		}
	}
}

// 3.1 ControllerModifyVolume, and mutable parameters of a new volume.
func TestModify(t *testing.T) {
	r, s, _ := onShelf(t, settings{})
	bad := createRequest("vol")
	bad.MutableParameters = map[string]string{"bad": "1"}
	_, err := r.CreateVolume(t.Context(), bad)
	wantCode(t, err, codes.InvalidArgument, "mutable_parameters")
	good := createRequest("vol")
	good.MutableParameters = map[string]string{"speed": "1"}
	_, err = r.CreateVolume(t.Context(), good)
	wantCode(t, err, codes.OK)
	for _, test := range []struct {
		id, key string
		code    codes.Code
	}{
		{"", "speed", codes.InvalidArgument},
		{"missing", "speed", codes.NotFound},
		{"vol", "bad", codes.InvalidArgument},
		{"vol", "speed", codes.OK},
	} {
		_, err := r.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{
			VolumeId: test.id, MutableParameters: map[string]string{test.key: "2"},
		})
		wantCode(t, err, test.code)
	}
	if got := s.mutable[backend.IDOf("vol")]["speed"]; got != "2" || slices.Index(s.calls, "Modify") != len(s.calls)-1 {
		t.Errorf("speed %q after %q", got, s.calls)
	}
}

// 3.1 ControllerGetVolume, ControllerGetVolumeHealth, ControllerListVolumeHealth.
func TestGetVolumeAndHealth(t *testing.T) {
	r, s, _ := onShelf(t, settings{})
	for _, name := range []string{"a", "b", "c", "d"} {
		r.create(t, name)
	}
	s.problems[backend.IDOf("a")], s.problems[backend.IDOf("c")], s.problems[backend.IDOf("d")] = "a block is bad", "unreadable", "gone"
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "missing": codes.NotFound, "a": codes.OK} {
		got, err := r.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
		wantCode(t, err, code)
		if code == codes.OK && (got.GetVolume().GetVolumeId() != id || got.GetStatus() == nil) {
			t.Errorf("got %v", got)
		}
		atController, err := r.ControllerGetVolumeHealth(t.Context(), &csi.ControllerGetVolumeHealthRequest{VolumeId: id})
		wantCode(t, err, code)
		atNode, err := r.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id})
		wantCode(t, err, code)
		if at := atNode.GetVolumeHealth(); code == codes.OK && (len(at.GetHealthStatuses()) != 1 || at.String() != atController.GetVolumeHealth().String()) {
			t.Errorf("the node says %v, the controller %v", at, atController)
		}
	}
	health, err := r.ControllerListVolumeHealth(t.Context(), &csi.ControllerListVolumeHealthRequest{})
	wantCode(t, err, codes.OK)
	entries := health.GetEntries()
	var got []string
	for _, entry := range entries {
		one := entry.GetHealthStatuses()[0]
		got = append(got, one.GetStatus().String()+" "+one.GetReason())
	}
	if want := []string{"DEGRADED Bad", "INACCESSIBLE Damaged", "INACCESSIBLE Bad"}; !slices.Equal(got, want) {
		t.Errorf("entries: %v, want %v", got, want)
	}
}

// 3.1 NodeGetStorageHealth reports an error of Probe as a state of the backend.
func TestStorageHealth(t *testing.T) {
	r := newRig(t, settings{})
	for _, broken := range []bool{false, true} {
		if broken {
			if err := os.RemoveAll(filepath.Join(r.state, "volumes")); err != nil {
				t.Fatal(err)
			}
		}
		health, err := r.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
		wantCode(t, err, codes.OK)
		if all := health.GetBackendHealth(); len(all) > 0 != broken || broken && all[0].GetStatus() != csi.StorageHealthErrorType_STORAGE_UNREACHABLE {
			t.Errorf("broken %v: %v", broken, all)
		}
	}
	_, err := newShelfRig(t).NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	wantCode(t, err, codes.Unimplemented)
}

func newShelfRig(t *testing.T) *rig {
	t.Helper()
	r, _, _ := onShelf(t, settings{})
	return r
}

// 3.1 GetCapacity: minimum_volume_size since 1.4, by the requested capabilities.
func TestCapacityTellsTheLeastSize(t *testing.T) {
	r := newShelfRig(t)
	for _, test := range []struct {
		capability *csi.VolumeCapability
		want       int64
	}{{mountCapability(writer), 300}, {blockCapability(), 0}} {
		got, err := r.GetCapacity(t.Context(), &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{test.capability}})
		wantCode(t, err, codes.OK)
		if got.GetMinimumVolumeSize().GetValue() != test.want || (got.GetMinimumVolumeSize() == nil) != (test.want == 0) {
			t.Errorf("%v: %v, want %d", test.capability, got, test.want)
		}
	}
}

// Parameters that Kubernetes owns, and the field of the class that older manifests repeat as a
// parameter, do not refuse a group. The driver knows no parameters of its own for it.
func TestGroupParametersThatKubernetesOwns(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	one := r.create(t, "one")
	create := func(parameters map[string]string) error {
		_, err := r.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{
			Name: "g", SourceVolumeIds: []string{one}, Parameters: parameters,
		})
		return err
	}
	wantCode(t, create(map[string]string{"unknown": "x"}), codes.InvalidArgument, "unknown")
	wantCode(t, create(map[string]string{
		"deletionPolicy": "Delete", "csi.storage.k8s.io/volumegroupsnapshot/name": "g",
	}), codes.OK)
}

// 3.1 GroupController: 3, 5, 6, and unknown is deleted.
func TestGroups(t *testing.T) {
	r, _, _ := onShelf(t, settings{})
	one, two := r.create(t, "one"), r.create(t, "two")
	create := func(name string, volumes ...string) (*csi.VolumeGroupSnapshot, error) {
		response, err := r.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: name, SourceVolumeIds: volumes})
		return response.GetGroupSnapshot(), err
	}
	_, err := create("", one)
	wantCode(t, err, codes.InvalidArgument, "name")
	_, err = create("g")
	wantCode(t, err, codes.InvalidArgument, "source_volume_ids")
	_, err = create("g", one, one)
	wantCode(t, err, codes.InvalidArgument, "twice")
	_, err = create("g", one, "missing")
	wantCode(t, err, codes.NotFound)
	group, err := create("g", two, one)
	wantCode(t, err, codes.OK)
	again, err := create("g", one, two)
	wantCode(t, err, codes.OK)
	if group.String() != again.String() || len(group.GetSnapshots()) != 2 || !group.GetReadyToUse() {
		t.Errorf("made %v, then %v", group, again)
	}
	_, err = create("g", one)
	wantCode(t, err, codes.AlreadyExists, "one of the volumes")
	member := group.GetSnapshots()[0].GetSnapshotId()
	_, err = r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: member})
	wantCode(t, err, codes.InvalidArgument, "delete the group")
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "missing": codes.NotFound, "g": codes.OK} {
		_, err = r.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id})
		wantCode(t, err, code)
	}
	_, err = r.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: "g", SnapshotIds: []string{member}})
	wantCode(t, err, codes.InvalidArgument, "snapshot_ids")
	remove := func(id string, snapshots ...string) error {
		_, err := r.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: snapshots})
		return err
	}
	wantCode(t, remove(""), codes.InvalidArgument)
	wantCode(t, remove("g", member), codes.InvalidArgument, "snapshot_ids")
	wantCode(t, remove("g"), codes.OK)
	wantCode(t, remove("g"), codes.OK)
	wantCode(t, remove("../g"), codes.OK)
}
