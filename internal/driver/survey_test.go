package driver

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/scripted"
)

// Allocated implements backend.Surveyor.
func (s *shelf) Allocated(ctx context.Context, id backend.ID, _ int64, visit func(backend.Extent) error) error {
	s.mu.Lock()
	surveying, extents := s.surveying, s.extents[id]
	err := s.enter("Allocated")
	s.mu.Unlock()
	if err == nil && surveying != nil {
		err = surveying(ctx)
	}
	for _, e := range extents {
		if err == nil {
			err = visit(e)
		}
	}
	return err
}

// Changed implements backend.Surveyor: all that the target holds.
func (s *shelf) Changed(ctx context.Context, _, target backend.ID, from int64, visit func(backend.Extent) error) error {
	return s.Allocated(ctx, target, from, visit)
}

// surveyRig is a driver on a real socket.
type surveyRig struct {
	csi.IdentityClient
	csi.ControllerClient
	csi.GroupControllerClient
	csi.SnapshotMetadataClient
	driver *Driver
}

func newSurveyRig(t *testing.T, b func(state string) backend.Backend, log logr.Logger) *surveyRig {
	t.Helper()
	dir := scripted.SocketDir(t)
	socket, state := filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state")
	d, err := New(Config{NodeID: "node-1", Endpoint: "unix://" + socket, StateDir: state, Backend: b(state), Mounter: mount.SymlinkMounter{}})
	if err != nil {
		t.Fatal(err)
	}
	stop := runWithLog(t, d, log)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connection.Close()
		if err := stop(); err != nil {
			t.Errorf("stop the driver: %v", err)
		}
	})
	return &surveyRig{
		csi.NewIdentityClient(connection), csi.NewControllerClient(connection), csi.NewGroupControllerClient(connection),
		csi.NewSnapshotMetadataClient(connection), d,
	}
}

// surveyShelf has a volume of 100 bytes with the snapshots old and new, and
// another volume with a snapshot other.
func surveyShelf() *shelf {
	s := newShelf()
	vol, elsewhere := backend.IDOf("vol"), backend.IDOf("elsewhere")
	s.volumes[vol] = backend.Volume{ID: vol, Name: "vol", CapacityBytes: 100}
	s.volumes[elsewhere] = backend.Volume{ID: elsewhere, Name: "elsewhere", CapacityBytes: 100}
	for name, source := range map[string]backend.ID{"old": vol, "new": vol, "other": elsewhere} {
		id := backend.IDOf(name)
		s.snapshot(id, name, source, "")
		s.extents[id] = []backend.Extent{{Offset: 0, Length: 10}, {Offset: 20, Length: 10}, {Offset: 90, Length: 10}}
	}
	return s
}

func onShelfOf(s *shelf) func(string) backend.Backend {
	return func(string) backend.Backend { return s }
}

// message is what both kinds of messages have.
type message interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// allOf gives the extents of each message, until the stream ends.
func allOf[M message](t *testing.T, stream interface{ Recv() (M, error) }, err error) (parts [][]backend.Extent, _ error) {
	t.Helper()
	for err == nil {
		var m M
		if m, err = stream.Recv(); err != nil {
			break
		}
		if m.GetBlockMetadataType() != csi.BlockMetadataType_VARIABLE_LENGTH || m.GetVolumeCapacityBytes() != 100 {
			t.Errorf("message %v", m)
		}
		part := []backend.Extent{}
		for _, e := range m.GetBlockMetadata() {
			part = append(part, backend.Extent{Offset: e.GetByteOffset(), Length: e.GetSizeBytes()})
		}
		parts = append(parts, part)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return parts, err
}

func (r *surveyRig) allocated(ctx context.Context, t *testing.T, request *csi.GetMetadataAllocatedRequest) ([][]backend.Extent, error) {
	t.Helper()
	stream, err := r.GetMetadataAllocated(ctx, request)
	return allOf(t, stream, err)
}

func (r *surveyRig) delta(ctx context.Context, t *testing.T, request *csi.GetMetadataDeltaRequest) ([][]backend.Extent, error) {
	t.Helper()
	stream, err := r.GetMetadataDelta(ctx, request)
	return allOf(t, stream, err)
}

// 3.1 GetMetadataAllocated and GetMetadataDelta: 3, 5, 10, 11.
func TestSurveyCodes(t *testing.T) {
	r := newSurveyRig(t, onShelfOf(surveyShelf()), logr.Discard())
	a, b, c := backend.Extent{Offset: 0, Length: 10}, backend.Extent{Offset: 20, Length: 10}, backend.Extent{Offset: 90, Length: 10}
	type parts = [][]backend.Extent
	tests := []struct {
		why, base, target string
		from              int64
		size              int32
		code              codes.Code
		text              string
		want              parts
	}{
		{"good", "old", "new", 0, 0, codes.OK, "", parts{{a, b, c}}},
		{"two at once", "old", "new", 0, 2, codes.OK, "", parts{{a, b}, {c}}},
		{"a huge limit", "old", "new", 0, 1<<31 - 1, codes.OK, "", parts{{a, b, c}}},
		{"resumed", "old", "new", 10, 1, codes.OK, "", parts{{b}, {c}}},
		{"resumed inside", "old", "new", 25, 0, codes.OK, "", parts{{{Offset: 25, Length: 5}, c}}},
		{"resumed at the end", "old", "new", 100, 0, codes.OK, "", parts{{}}},
		{"the same one", "new", "new", 0, 0, codes.OK, "", parts{{a, b, c}}},
		{"no target", "old", "", 0, 0, codes.InvalidArgument, "snapshot_id: missing", nil},
		{"negative limit", "old", "new", 0, -1, codes.InvalidArgument, "max_results -1", nil},
		{"negative offset", "old", "new", -1, 0, codes.OutOfRange, "starting_offset -1", nil},
		{"behind the end", "old", "new", 101, 0, codes.OutOfRange, "starting_offset 101", nil},
		{"no such target", "old", "missing", 0, 0, codes.NotFound, `snapshot "missing"`, nil},
		{"nothing of ours", "old", "../x", 0, 0, codes.NotFound, "", nil},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			got, err := r.allocated(t.Context(), t, &csi.GetMetadataAllocatedRequest{SnapshotId: test.target, StartingOffset: test.from, MaxResults: test.size})
			wantCode(t, err, test.code, test.text)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("allocated: %s", diff)
			}
			got, err = r.delta(t.Context(), t, &csi.GetMetadataDeltaRequest{
				BaseSnapshotId: test.base, TargetSnapshotId: test.target, StartingOffset: test.from, MaxResults: test.size,
			})
			wantCode(t, err, test.code, test.text)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("delta: %s", diff)
			}
		})
	}
	for base, want := range map[string]codes.Code{"": codes.InvalidArgument, "missing": codes.NotFound, "other": codes.InvalidArgument} {
		_, err := r.delta(t.Context(), t, &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: "new"})
		wantCode(t, err, want, base)
	}
}

func TestOnlySurveyorsAdvertiseTheService(t *testing.T) {
	for name, test := range map[string]struct {
		backend func(string) backend.Backend
		want    bool
	}{
		"a surveyor":  {onShelfOf(surveyShelf()), true},
		"directories": {func(state string) backend.Backend { return directories(t, state) }, false},
	} {
		r := newSurveyRig(t, test.backend, logr.Discard())
		plugin, err := r.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
		wantCode(t, err, codes.OK)
		got := slices.ContainsFunc(plugin.GetCapabilities(), func(c *csi.PluginCapability) bool {
			return c.GetService().GetType() == csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE
		})
		if got != test.want {
			t.Errorf("%s: advertised: %v", name, got)
		}
		_, err = r.allocated(t.Context(), t, &csi.GetMetadataAllocatedRequest{SnapshotId: "new"})
		want := codes.OK
		if !test.want {
			want = codes.Unimplemented
		}
		wantCode(t, err, want)
	}
}

// A snapshot that is read is not deleted, also not with its group, until the stream ends or the
// caller cancels it.
func TestASurveyHoldsItsSnapshots(t *testing.T) {
	s := surveyShelf()
	group := backend.IDOf("group")
	for _, name := range []string{"old", "new"} {
		s.snapshot(backend.IDOf(name), name, backend.IDOf("vol"), group.String())
	}
	s.groups[group] = backend.Group{ID: group, Name: "group", Snapshots: []backend.Snapshot{s.snapshots[backend.IDOf("new")]}}
	began := make(chan struct{}, 2)
	s.surveying = func(ctx context.Context) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	r := newSurveyRig(t, onShelfOf(s), logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := r.delta(ctx, t, &csi.GetMetadataDeltaRequest{BaseSnapshotId: "old", TargetSnapshotId: "new"})
		ended <- err
	}()
	go func() {
		_, err := r.allocated(ctx, t, &csi.GetMetadataAllocatedRequest{SnapshotId: "new"})
		ended <- err
	}()
	<-began
	<-began
	for _, id := range []string{"old", "new"} {
		_, err := r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
		wantCode(t, err, codes.Aborted, "GetMetadata", "try again")
	}
	_, err := r.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: "group"})
	wantCode(t, err, codes.Aborted, "GetMetadata")
	cancel()
	wantCode(t, <-ended, codes.Canceled)
	wantCode(t, <-ended, codes.Canceled)
	for { // until the handlers noticed
		_, err = r.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: "group"})
		if err == nil || !strings.Contains(err.Error(), "GetMetadata") {
			break
		}
	}
	wantCode(t, err, codes.OK)
}

// Streaming calls have the interceptors of all other calls: one log line without secrets, a
// count, and an error for a panic.
func TestStreamsHaveTheInterceptors(t *testing.T) {
	s := surveyShelf()
	var log journal
	r := newSurveyRig(t, onShelfOf(s), funcr.New(log.add, funcr.Options{Verbosity: levelRequest}))
	request := &csi.GetMetadataAllocatedRequest{SnapshotId: "new", Secrets: map[string]string{"key": "hidden"}}
	_, err := r.allocated(t.Context(), t, request)
	wantCode(t, err, codes.OK)
	s.surveying = func(context.Context) error { panic("broken") }
	_, err = r.allocated(t.Context(), t, request)
	wantCode(t, err, codes.Internal, "GetMetadataAllocated panicked: broken")
	for _, parts := range [][]string{
		{"CSI request", `"method"="GetMetadataAllocated"`, "stripped"},
		{"CSI call", `"method"="GetMetadataAllocated"`, `"code"="OK"`, `"level"=2`},
		{"CSI call failed", `"code"="Internal"`},
	} {
		if got := log.with(parts...); len(got) == 0 {
			t.Errorf("%q: no line", parts)
		}
	}
	if got := log.with("hidden"); len(got) > 0 {
		t.Errorf("a secret was logged: %q", got)
	}
	if calls := r.driver.Counter().Calls("GetMetadataAllocated"); calls != 2 {
		t.Errorf("%d calls were counted", calls)
	}
}
