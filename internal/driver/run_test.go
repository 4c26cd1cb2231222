package driver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/scripted"
)

func newDriver(t *testing.T, state, socket string) *Driver {
	t.Helper()
	d, err := New(Config{
		NodeID: "node-1", Endpoint: "unix://" + socket, StateDir: state,
		Backend: directories(t, state), Mounter: mount.SymlinkMounter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run starts a driver and waits until it accepts calls, or has failed.
func run(t *testing.T, d *Driver) (stop func() error) {
	t.Helper()
	return runWithLog(t, d, logr.Discard())
}

func runWithLog(t *testing.T, d *Driver, log logr.Logger) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), log))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	select {
	case <-d.Ready():
	case err := <-done:
		cancel()
		return func() error { return err }
	}
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return stop
}

func TestRunServesOnASocketUntilTheContextIsDone(t *testing.T) {
	dir := scripted.SocketDir(t)
	socket := filepath.Join(dir, "new", "csi.sock")
	stop := run(t, newDriver(t, filepath.Join(dir, "state"), socket))

	wantMode(t, socket, 0o600)
	wantMode(t, filepath.Dir(socket), 0o700)
	wantMode(t, filepath.Join(dir, "state"), 0o700)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	wantCode(t, err, codes.OK)
	if info.GetName() != "csi.purser" || info.GetVendorVersion() != "devel" {
		t.Errorf("plugin info: %v", info)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: mode %v, %v, want %v", path, info.Mode().Perm(), err, want)
	}
}

// deadSocket is the socket of a killed driver: a file without a listener.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRunReplacesTheSocketOfADeadDriver(t *testing.T) {
	dir := scripted.SocketDir(t)
	socket := filepath.Join(dir, "csi.sock")
	deadSocket(t, socket)
	if err := run(t, newDriver(t, filepath.Join(dir, "state"), socket))(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRunRefusesWhatIsNotItsOwn(t *testing.T) {
	dir := scripted.SocketDir(t)
	socket, state := filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, newDriver(t, state, socket))
	tests := []struct{ name, state, socket, want string }{
		{"a served socket", filepath.Join(dir, "other"), socket, "already served by another driver"},
		{"a state directory in use", state, filepath.Join(dir, "other.sock"), "in use by another driver (process "},
		{"a file as socket", filepath.Join(dir, "other"), file, "is not a socket"},
		{"a file as state directory", file, filepath.Join(dir, "other.sock"), "make the state directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := run(t, newDriver(t, test.state, test.socket))()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run: %v, want %q", err, test.want)
			}
		})
	}
	for _, path := range []string{socket, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A stop lets the calls in flight finish.
func TestStopWaitsForCalls(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	backend := newGated(t, state)
	r := newRig(t, settings{state: state, backend: backend})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, err := r.CreateVolume(ctx, createRequest("vol"))
		answer <- err
	}()
	<-backend.entered
	stopped := r.stopServing()
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call in flight: %v", err)
	default:
	}
	close(backend.open)
	wantCode(t, <-answer, codes.OK)
	if err := <-stopped; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// A stop does not wait for ever: the caller wants to exit.
func TestStopGivesUpOnACallThatHangs(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	hanging := stuck{directories(t, state), make(chan struct{}), make(chan struct{})}
	defer close(hanging.free)
	r := newRig(t, settings{state: state, backend: hanging, stopTimeout: time.Millisecond})
	go func() { _, _ = r.CreateVolume(context.WithoutCancel(t.Context()), createRequest("vol")) }()
	<-hanging.entered
	err := <-r.stopServing()
	if err == nil || !strings.Contains(err.Error(), "calls were still running after 1ms") {
		t.Errorf("Serve: %v", err)
	}
	// What still runs may still write, so no other process gets the state.
	if unlock, err := lockState(state); err == nil {
		unlock()
		t.Error("the state was unlocked with a call in flight")
	}
}

// closing is a backend that holds something.
type closing struct {
	stuck
	closed chan struct{}
}

func (c closing) Close() error {
	close(c.closed)
	return errors.New("cannot release")
}

// The backend is closed when the driver stops, also when a call is still running.
func TestStopClosesTheBackend(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	hanging := closing{stuck{directories(t, state), make(chan struct{}), make(chan struct{})}, make(chan struct{})}
	defer close(hanging.free)
	r := newRig(t, settings{state: state, backend: hanging, stopTimeout: time.Millisecond})
	go func() { _, _ = r.CreateVolume(context.WithoutCancel(t.Context()), createRequest("vol")) }()
	<-hanging.entered
	err := <-r.stopServing()
	select {
	case <-hanging.closed:
	default:
		t.Error("the backend was not closed")
	}
	if err == nil || !strings.Contains(err.Error(), "still running") || !strings.Contains(err.Error(), "cannot release") {
		t.Errorf("Serve: %v", err)
	}
}

// Only a listener that breaks ends Serve without a done context.
func TestServeReportsABrokenListener(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	d := newDriver(t, state, "/unused")
	listener, err := net.Listen("unix", filepath.Join(scripted.SocketDir(t), "csi.sock"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(t.Context(), listener) }()
	<-d.Ready()
	_ = listener.Close()
	if err := <-served; err == nil {
		t.Error("Serve returned no error")
	}
}

// unrecoverable is a backend that fails in Recover.
type unrecoverable struct{ backend.Backend }

func (unrecoverable) Recover(context.Context) error { return errors.New("bad superblock") }
func (unrecoverable) Source(context.Context, backend.ID) (string, error) {
	return "", nil
}

func TestServeNeedsAStateItCanRecover(t *testing.T) {
	dir := scripted.SocketDir(t)
	d, err := New(Config{
		NodeID: "node-1", Endpoint: "unix://" + dir + "/csi.sock", StateDir: dir,
		Backend: unrecoverable{directories(t, dir)}, Mounter: mount.SymlinkMounter{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t, d)(); err == nil || !strings.Contains(err.Error(), "bad superblock") {
		t.Errorf("Run: %v", err)
	}
}
