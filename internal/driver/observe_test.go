package driver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// journal collects log lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(prefix, args string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, prefix+" "+args)
}

func (j *journal) with(parts ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			found = append(found, line)
		}
	}
	return found
}

func TestOneLinePerCall(t *testing.T) {
	var log journal
	r := newRig(t, settings{log: funcr.New(log.add, funcr.Options{Verbosity: levelQuestion})})
	r.create(t, "vol")
	_, _ = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{})
	_, _ = r.Probe(t.Context(), &csi.ProbeRequest{})
	for _, parts := range [][]string{
		{`"method"="CreateVolume"`, `"volume"="vol"`, `"code"="OK"`, `"duration"=`, `"level"=0`},
		{`"method"="DeleteVolume"`, `"volume"=""`, `"code"="InvalidArgument"`, `volume_id: missing`, `"level"=0`},
		{`"method"="Probe"`, `"code"="OK"`, `"level"=2`},
	} {
		if got := log.with(parts...); len(got) != 1 {
			t.Errorf("%q: %d lines", parts, len(got))
		}
	}
}

func TestCounter(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	r.create(t, "vol")
	_, _ = r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{})
	_, _ = r.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{})
	want := []Count{
		{"CreateVolume", codes.OK, 2},
		{"CreateVolume", codes.InvalidArgument, 1},
		{"NodeStageVolume", codes.Unimplemented, 1},
	}
	if diff := cmp.Diff(want, r.driver.Counter().Counts()); diff != "" {
		t.Error(diff)
	}
	if got := r.driver.Counter().Calls("CreateVolume"); got != 3 {
		t.Errorf("CreateVolume was called %d times, want 3", got)
	}
}

// Nothing secret is in the log, not even with everything switched on.
func TestSecretsAreNotLogged(t *testing.T) {
	var log journal
	r := newRig(t, settings{log: funcr.New(log.add, funcr.Options{Verbosity: 100})})
	create := createRequest("vol")
	create.Secrets = map[string]string{"key": "hush-1"}
	create.VolumeCapabilities[0].GetMount().MountFlags = []string{"password=hush-2"}
	_, _ = r.CreateVolume(t.Context(), create)
	publish := r.publishRequest("vol", "target")
	publish.Secrets = map[string]string{"key": "hush-3"}
	publish.VolumeCapability.GetMount().MountFlags = []string{"password=hush-4"}
	publish.VolumeContext = map[string]string{tokensKey: "hush-5", "harmless": "shown"}
	_, _ = r.NodePublishVolume(t.Context(), publish)
	if leaks := log.with("hush"); len(leaks) > 0 {
		t.Errorf("leaked: %q", leaks)
	}
	for _, part := range []string{stripped, "harmless", `"method"="NodePublishVolume"`} {
		if len(log.with(part, "CSI request")) == 0 {
			t.Errorf("no request with %s in the log", part)
		}
	}
	if publish.VolumeCapability.GetMount().MountFlags[0] != "password=hush-4" {
		t.Error("the request itself was changed")
	}
}

type panicking struct{ *directory.Backend }

func (panicking) Get(context.Context, backend.ID) (backend.Volume, error) {
	var none *struct{ field int }
	return backend.Volume{CapacityBytes: int64(none.field)}, nil
}

func TestAPanicIsAnErrorOfOneCall(t *testing.T) {
	var log journal
	state := filepath.Join(t.TempDir(), "state")
	r := newRig(t, settings{
		state: state, backend: panicking{directories(t, state)}, log: funcr.New(log.add, funcr.Options{}),
	})
	for range 2 { // the second call shows that the volume was given free
		_, err := r.CreateVolume(t.Context(), createRequest("vol"))
		wantCode(t, err, codes.Internal, "CreateVolume panicked", "nil pointer")
	}
	if len(log.with("observe_test.go")) == 0 {
		t.Error("the log has no stack")
	}
	_, err := r.Probe(t.Context(), &csi.ProbeRequest{})
	wantCode(t, err, codes.OK)
}

func TestProbeFailsWithoutTheState(t *testing.T) {
	r := newRig(t, settings{})
	if err := os.RemoveAll(filepath.Join(r.state, "trash")); err != nil {
		t.Fatal(err)
	}
	_, err := r.Probe(t.Context(), &csi.ProbeRequest{})
	wantCode(t, err, codes.FailedPrecondition, "not writable")
}

func TestToStatus(t *testing.T) {
	tests := []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{errors.New("plain"), codes.Internal},
		{fault.Invalid.Errorf("x"), codes.InvalidArgument},
		{fault.NotFound.Errorf("x"), codes.NotFound},
		{fault.Incompatible.Errorf("x"), codes.AlreadyExists},
		{fault.InUse.Errorf("x"), codes.FailedPrecondition},
		{fault.Unsupported.Errorf("x"), codes.FailedPrecondition},
		{fault.Unready.Errorf("x"), codes.FailedPrecondition},
		{fault.OutOfRange.Errorf("x"), codes.OutOfRange},
		{fault.Exhausted.Errorf("x"), codes.ResourceExhausted},
		{fault.Busy.Errorf("x"), codes.Aborted},
		{fault.BadToken.Errorf("x"), codes.Aborted},
		{fault.Internal.Errorf("x: %w", fault.NotFound.Errorf("y")), codes.Internal},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.Unimplemented, "x"), codes.Unimplemented},
	}
	for _, test := range tests {
		if got := status.Code(toStatus(test.err)); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
	for kind := fault.Internal; kind <= fault.BadToken; kind++ {
		if _, listed := codeOf[kind]; !listed {
			t.Errorf("kind %d has no code", kind)
		}
	}
}
