package e2e

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// scripted is a driver that has a controller and nothing else. Its first CreateVolume makes the volume and does not say so.
type scripted struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer

	mu      sync.Mutex
	created []*csi.CreateVolumeRequest
	deleted []string
}

func (s *scripted) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil // it does not say whether it is ready, which means that it is
}

func (s *scripted) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "scripted.csi"}, nil
}

func (s *scripted) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
	}}}}, nil
}

func (s *scripted) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{Type: &csi.ControllerServiceCapability_Rpc{
		Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME},
	}}}}, nil
}

func (s *scripted) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created = append(s.created, r)
	if len(s.created) == 1 {
		return nil, status.Error(codes.Unavailable, "the array is rebooting")
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "lun-7", CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}}, nil
}

func (s *scripted) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *scripted) serve(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	must(t, err)
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, s)
	csi.RegisterControllerServer(server, s)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
}

// A driver that may have made a volume is asked the same again, and the volume is deleted once.
func TestUncertainDriver(t *testing.T) {
	t.Parallel()
	binaries(t)
	dir := dataDir(t)
	socket := filepath.Join(dir, "own.sock")
	driver := &scripted{}
	driver.serve(t, socket)

	b := newBerth(t, start(t, stage.Config{DataDir: filepath.Join(dir, "d"), Socket: socket, Args: []string{"--csi-address", socket}}))
	claim := b.claim(t, "claim", "")
	pv := b.awaitBound(t, claim)
	b.awaitEvent(t, claim, "scripted.csi", "Warning", "ProvisioningFailed", "the array is rebooting")
	b.delete(t, claim)
	b.awaitGone(t, pv)

	driver.mu.Lock()
	defer driver.mu.Unlock()
	if len(driver.created) != 2 {
		t.Fatalf("%d calls of CreateVolume, want 2", len(driver.created))
	}
	if diff := cmp.Diff(driver.created[0], driver.created[1], protocmp.Transform()); diff != "" {
		t.Errorf("the second request differs:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lun-7"}, driver.deleted); diff != "" {
		t.Errorf("deleted volumes:\n%s", diff)
	}
}
