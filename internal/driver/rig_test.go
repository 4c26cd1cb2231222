package driver

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"

	"github.com/purser-csi/purser/internal/driver/records"
	"github.com/purser-csi/purser/internal/mount"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a driver that serves on an in-memory connection, and its clients.
type rig struct {
	csi.IdentityClient
	csi.ControllerClient
	csi.NodeClient
	csi.GroupControllerClient
	driver  *Driver
	state   string
	targets string
	// stop closes the clients' connection, lets the driver stop and gives
	// what Serve returned. stopServing does so without closing, at once.
	stop        func() error
	stopServing func() <-chan error
}

// settings are what a test may want otherwise.
type settings struct {
	state   string
	backend backend.Backend
	mounter mount.Mounter
	log     logr.Logger
	now     func() time.Time

	stopTimeout time.Duration
	topologyKey string
	topology    map[string]string
	attach      Attach
	zones       []records.Zone
}

// newRig serves directories with symbolic links, so that it works without root. Tests of real
// mounts choose another mounter.
func newRig(t *testing.T, with settings) *rig {
	t.Helper()
	if with.state == "" {
		with.state = filepath.Join(t.TempDir(), "state")
	}
	if with.backend == nil {
		with.backend = directories(t, with.state)
	}
	if with.mounter == nil {
		with.mounter = mount.SymlinkMounter{}
	}
	d, err := New(Config{
		Version: "v1.2.3", NodeID: "node-1", Endpoint: "unix:///unused",
		StateDir: with.state, Backend: with.backend, Mounter: with.mounter, StopTimeout: with.stopTimeout,
		TopologyKey: with.topologyKey, Topology: with.topology, Attach: with.attach, Zones: with.zones,
	})
	if err != nil {
		t.Fatal(err)
	}
	if with.now != nil {
		d.running = NewInFlight(with.now)
	}
	r := &rig{driver: d, state: with.state, targets: t.TempDir()}
	r.serve(t, with.log)
	return r
}

func (r *rig) serve(t *testing.T, log logr.Logger) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), log))
	served := make(chan error, 1)
	go func() { served <- r.driver.Serve(ctx, listener) }()
	select {
	case <-r.driver.Ready():
	case err := <-served:
		cancel()
		t.Fatal(err)
	}
	connection, err := grpc.NewClient("passthrough:///driver",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	r.IdentityClient, r.ControllerClient, r.NodeClient, r.GroupControllerClient =
		csi.NewIdentityClient(connection), csi.NewControllerClient(connection), csi.NewNodeClient(connection), csi.NewGroupControllerClient(connection)
	stopped := false
	r.stopServing = func() <-chan error {
		stopped = true
		cancel()
		return served
	}
	r.stop = func() error {
		_ = connection.Close()
		return <-r.stopServing()
	}
	t.Cleanup(func() {
		if stopped {
			_ = connection.Close()
			return
		}
		if err := r.stop(); err != nil {
			t.Errorf("stop the driver: %v", err)
		}
	})
}

func directories(t *testing.T, state string) *directory.Backend {
	t.Helper()
	b, err := directory.New(directory.Config{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mountCapability(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

func blockCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func createRequest(name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: 1 << 30},
		VolumeCapabilities: []*csi.VolumeCapability{mountCapability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
	}
}

func (r *rig) create(t *testing.T, name string) string {
	t.Helper()
	response, err := r.CreateVolume(t.Context(), createRequest(name))
	if err != nil {
		t.Fatal(err)
	}
	return response.GetVolume().GetVolumeId()
}

func (r *rig) target(name string) string { return filepath.Join(r.targets, name) }

func (r *rig) publishRequest(id, target string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId: id, TargetPath: r.target(target),
		VolumeCapability: mountCapability(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER),
	}
}

func (r *rig) publish(t *testing.T, id, target string) {
	t.Helper()
	if _, err := r.NodePublishVolume(t.Context(), r.publishRequest(id, target)); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) unpublish(t *testing.T, id, target string) {
	t.Helper()
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: r.target(target)}
	if _, err := r.NodeUnpublishVolume(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) delete(t *testing.T, id string) {
	t.Helper()
	if _, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		t.Fatal(err)
	}
}

// wantCode checks the code and that the text says enough ("Error Scheme": the
// message MUST contain a human readable description; details MUST be empty).
func wantCode(t *testing.T, err error, code codes.Code, parts ...string) {
	t.Helper()
	got := status.Convert(err)
	if got.Code() != code {
		t.Errorf("got %s (%s), want %s", got.Code(), got.Message(), code)
		return
	}
	if code != codes.OK && (got.Message() == "" || len(got.Details()) > 0) {
		t.Errorf("message %q, details %v", got.Message(), got.Details())
	}
	for _, part := range parts {
		if !strings.Contains(got.Message(), part) {
			t.Errorf("message %q lacks %q", got.Message(), part)
		}
	}
}

func wantEmptyDir(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%s holds %v, %v; want nothing", dir, entries, err)
	}
}
