package snapshot

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/purser-csi/purser/test/scripted"
)

// script has the answers of a driver to the calls about one volume or one snapshot.
type script struct {
	failures  []codes.Code // of CreateSnapshot, one after the other, before it succeeds
	forever   bool         // the last of the failures stays
	deletions []codes.Code // of DeleteSnapshot
	unready   int          // answers that say that the snapshot is not ready
	renamed   bool         // each answer has another snapshot id
	undated   bool         // no creation time
	size      int64
	// made has CreateSnapshot make the snapshot before it fails.
	made bool
}

// driver is a CSI driver in this process. It keeps snapshots by their name, as the specification
// has it.
type driver struct {
	scripted.Driver
	csi.UnimplementedGroupControllerServer

	mu        sync.Mutex
	scripts   map[string]*script        // by volume, or by snapshot id
	snapshots map[string]*csi.Snapshot  // by name
	calls     map[string]map[string]int // by volume or snapshot id: request -> count
	listed    map[string]*csi.Snapshot  // by snapshot id; what existed before
	answers   map[string]int            // of CreateSnapshot, by name
}

func newDriver(name string, lists bool) *driver {
	capabilities := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT}
	if lists {
		capabilities = append(capabilities, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS)
	}
	var groups []csi.PluginCapability_Service_Type
	if name == mainDriver {
		groups = append(groups, csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE)
	}
	return &driver{
		Driver: scripted.Driver{Name: name, Controller: capabilities, Plugin: groups}, scripts: map[string]*script{},
		snapshots: map[string]*csi.Snapshot{}, calls: map[string]map[string]int{}, listed: map[string]*csi.Snapshot{},
		answers: map[string]int{},
	}
}

// serve answers at a socket in dir until the test ends.
func (d *driver) serve(t *testing.T, dir string) string {
	t.Helper()
	socket := filepath.Join(dir, d.Name+".sock")
	server, err := scripted.Serve(t.Context(), socket, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return socket
}

// set has calls about a volume, or a snapshot id, answered by a script.
func (d *driver) set(about string, s script) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scripts[about] = &s
}

func (d *driver) script(about string) *script {
	if s := d.scripts[about]; s != nil {
		return s
	}
	return &script{size: 1 << 30}
}

// heal has calls about a volume succeed from now on.
func (d *driver) heal(about string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.script(about).failures = nil
}

// exists adds a snapshot that the driver did not create.
func (d *driver) exists(id, volume string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed[id] = &csi.Snapshot{SnapshotId: id, SourceVolumeId: volume, SizeBytes: 1 << 30, ReadyToUse: true, CreationTime: timestamppb.Now()}
}

func (d *driver) note(about, call string) {
	if d.calls[about] == nil {
		d.calls[about] = map[string]int{}
	}
	d.calls[about][call]++
}

// lines describes the calls about the volumes and snapshots of a scenario, and the snapshots that
// the driver has. The number of equal calls does not count.
func (d *driver) lines(scenario string) (lines []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for about, calls := range d.calls {
		if strings.HasPrefix(about, scenario+".") {
			for call := range calls {
				lines = append(lines, "driver/"+about+" call = "+call)
			}
		}
	}
	for _, s := range d.snapshots {
		if strings.HasPrefix(s.GetSourceVolumeId(), scenario+".") {
			lines = append(lines, "driver/"+s.GetSourceVolumeId()+" has a snapshot")
		}
	}
	for id := range d.listed {
		if strings.HasPrefix(id, scenario+".") {
			lines = append(lines, "driver/"+id+" exists")
		}
	}
	return lines
}

func (d *driver) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	volume := r.GetSourceVolumeId()
	d.note(volume, fmt.Sprintf("CreateSnapshot %s %s secret %s", r.GetName(), written(r.GetParameters()), written(r.GetSecrets())))
	s := d.script(volume)
	if len(s.failures) > 0 {
		code := s.failures[0]
		if !s.forever || len(s.failures) > 1 {
			s.failures = s.failures[1:]
		}
		if s.made {
			d.make(r, s)
		}
		return nil, status.Error(code, "scripted")
	}
	snapshot := d.make(r, s)
	d.answers[r.GetName()]++
	answer := &csi.Snapshot{
		SnapshotId: snapshot.GetSnapshotId(), SourceVolumeId: volume, SizeBytes: snapshot.GetSizeBytes(),
		CreationTime: snapshot.GetCreationTime(), ReadyToUse: d.answers[r.GetName()] > s.unready,
	}
	if s.renamed {
		answer.SnapshotId = fmt.Sprintf("%s-%d", snapshot.GetSnapshotId(), d.answers[r.GetName()])
	}
	return &csi.CreateSnapshotResponse{Snapshot: answer}, nil
}

func (d *driver) make(r *csi.CreateSnapshotRequest, s *script) *csi.Snapshot {
	if d.snapshots[r.GetName()] == nil {
		made := &csi.Snapshot{
			SnapshotId: r.GetSourceVolumeId() + "@" + r.GetName(), SourceVolumeId: r.GetSourceVolumeId(), SizeBytes: s.size,
			CreationTime: timestamppb.Now(),
		}
		if s.undated {
			made.CreationTime = nil
		}
		d.snapshots[r.GetName()] = made
	}
	return d.snapshots[r.GetName()]
}

func (d *driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := r.GetSnapshotId()
	volume, _, _ := strings.Cut(id, "@")
	d.note(volume, fmt.Sprintf("DeleteSnapshot %s secret %s", id, written(r.GetSecrets())))
	if s := d.script(volume); len(s.deletions) > 0 {
		code := s.deletions[0]
		s.deletions = s.deletions[1:]
		return nil, status.Error(code, "scripted")
	}
	delete(d.listed, id)
	for name, s := range d.snapshots {
		if s.GetSnapshotId() == id {
			delete(d.snapshots, name)
		}
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (d *driver) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(r.GetSnapshotId(), fmt.Sprintf("ListSnapshots %s secret %s", r.GetSnapshotId(), written(r.GetSecrets())))
	answer := &csi.ListSnapshotsResponse{}
	if s := d.listed[r.GetSnapshotId()]; s != nil {
		answer.Entries = []*csi.ListSnapshotsResponse_Entry{{Snapshot: s}}
	}
	return answer, nil
}

// written is a map as text, in an order that does not change.
func written(m map[string]string) string {
	var text []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		text = append(text, key+"="+m[key])
	}
	return "[" + strings.Join(text, " ") + "]"
}
