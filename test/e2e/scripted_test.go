package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/scripted"
)

// ownDriver is a driver with only a controller service. Its first CreateVolume makes the volume,
// and the answer is lost.
type ownDriver struct {
	scripted.Driver

	first func(context.Context) error // how the first CreateVolume ends

	mu      sync.Mutex
	created []*csi.CreateVolumeRequest
	deleted []string
}

// newOwnDriver returns a driver with a name.
func newOwnDriver(name string, first func(context.Context) error) *ownDriver {
	return &ownDriver{first: first, Driver: scripted.Driver{
		Name:       name,
		Controller: []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}}
}

func (s *ownDriver) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if s.note(r) == 1 {
		return nil, s.first(ctx)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "lun-7", CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}}, nil
}

// note records the request, and returns the number of requests so far.
func (s *ownDriver) note(r *csi.CreateVolumeRequest) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, r)
	return len(s.created)
}

func (s *ownDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *ownDriver) serve(t *testing.T, socket string) (end func()) {
	t.Helper()
	server, err := scripted.Serve(t.Context(), socket, s)
	must(t, err)
	t.Cleanup(server.Stop)
	return server.Stop
}

// After an uncertain CreateVolume the same request is sent again, and the volume is deleted once.
func TestUncertainDriver(t *testing.T) {
	t.Parallel()
	binaries(t)
	dir := dataDir(t)
	socket := filepath.Join(dir, "own.sock")
	driver := newOwnDriver("scripted.csi", func(context.Context) error { return status.Error(codes.Unavailable, "the array is rebooting") })
	driver.serve(t, socket)

	b := newTestNamespace(t, start(t, stage.Config{DataDir: filepath.Join(dir, "d"), Socket: socket, Args: []string{"--csi-address", socket}}))
	claim := b.claim(t, "claim", "")
	pv := b.awaitBound(t, claim)
	b.awaitEvent(t, claim, "scripted.csi", "Warning", "ProvisioningFailed", "the array is rebooting")
	b.delete(t, claim)
	b.awaitGone(t, pv)

	driver.mustHaveUndone(t)
}

// The process is killed while the driver makes a volume, and the claim is deleted before the next
// start. The orphaned volume is found and deleted. Upstream leaks it (external-provisioner #486).
func TestKilledWhileDriverWorks(t *testing.T) {
	t.Parallel()
	binaries(t)
	dir := dataDir(t)
	socket, data := filepath.Join(dir, "own.sock"), filepath.Join(dir, "d")
	driver := newOwnDriver("scripted.csi", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	driver.serve(t, socket)
	around := stage.Config{DataDir: data, Socket: socket, Args: []string{"--csi-address", socket}}

	b := newTestNamespace(t, start(t, around))
	claim := b.claim(t, "claim", "")
	eventually(t, func(context.Context) error {
		if calls, _ := driver.seen(); calls == 0 {
			return errors.New("the driver was not asked for a volume")
		}
		return nil
	})
	b.Kill()
	awaitAlone(t, data)

	b.Stage = start(t, stage.Config{DataDir: data}) // with another driver: no provisioner serves the claim
	b.delete(t, claim)
	b.awaitGone(t, claim)
	stop(t, b.Stage)

	start(t, around)
	eventually(t, func(context.Context) error {
		if _, deleted := driver.seen(); deleted == 0 {
			return errors.New("the volume was not deleted")
		}
		return nil
	})
	driver.mustHaveUndone(t)
}

// seen returns the numbers of CreateVolume and DeleteVolume calls.
func (s *ownDriver) seen() (created, deleted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.created), len(s.deleted)
}

// mustHaveUndone fails the test unless there were two equal CreateVolume calls and one
// DeleteVolume.
func (s *ownDriver) mustHaveUndone(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.created) != 2 {
		t.Fatalf("%d calls of CreateVolume, want 2", len(s.created))
	}
	if diff := cmp.Diff(s.created[0], s.created[1], protocmp.Transform()); diff != "" {
		t.Errorf("the second request differs:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lun-7"}, s.deleted); diff != "" {
		t.Errorf("deleted volumes:\n%s", diff)
	}
}
