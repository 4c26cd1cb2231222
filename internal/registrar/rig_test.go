package registrar

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/registrar/rules"
	"github.com/purser-csi/purser/test/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver is a CSI driver that answers as the test wants.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer

	mu   sync.Mutex
	name string
	node string
	hang chan struct{} // GetPluginInfo waits until it is closed; nil for no wait
}

func (d *driver) set(name, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name, d.node = name, node
}

func (d *driver) GetPluginInfo(ctx context.Context, _ *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csi.GetPluginInfoResponse{Name: d.name}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csi.NodeGetInfoResponse{NodeId: d.node, AccessibleTopology: &csi.Topology{
		Segments: map[string]string{"zone": "of " + d.node, "rack": "1"},
	}}, nil
}

// rig is a driver, a folder that a kubelet would watch, and registrars.
type rig struct {
	*testing.T
	dir, socket string
	driver      *driver
	server      *grpc.Server

	mu      sync.Mutex
	answers []rules.Kubelet
}

const driverName = "csi.example.com"

func newRig(t *testing.T) *rig {
	t.Helper()
	base := scripted.SocketDir(t)
	r := &rig{
		T: t, dir: filepath.Join(base, "r"), socket: filepath.Join(base, "csi.sock"),
		driver: &driver{name: driverName, node: "i-1"},
	}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stopDriver)
	return r
}

func (r *rig) startDriver() {
	r.Helper()
	_ = os.Remove(r.socket)
	listener, err := (&net.ListenConfig{}).Listen(r.Context(), "unix", r.socket)
	if err != nil {
		r.Fatal(err)
	}
	r.server = grpc.NewServer()
	csi.RegisterIdentityServer(r.server, r.driver)
	csi.RegisterNodeServer(r.server, r.driver)
	go func(s *grpc.Server) { _ = s.Serve(listener) }(r.server)
}

func (r *rig) stopDriver() {
	if r.server != nil {
		r.server.Stop()
		r.server = nil
	}
}

// start runs a registrar until the test or the caller ends it.
func (r *rig) start() (reg *Registrar, end func(cause error)) {
	r.Helper()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: r.socket, Timeout: time.Second})
	if err != nil {
		r.Fatal(err)
	}
	reg = New(Config{
		Conn: conn, Dir: r.dir, Endpoint: "/var/lib/kubelet/plugins/x/csi.sock", Timeout: 250 * time.Millisecond,
		Notified: func(_ string, _, after rules.Kubelet) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answers = append(r.answers, after)
		},
	})
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	done := make(chan error, 1)
	go func() { done <- reg.Run(ctx) }()
	var once sync.Once
	end = func(cause error) {
		once.Do(func() {
			cancel(cause)
			if err := <-done; err != nil {
				r.Errorf("Run: %v", err)
			}
			_ = conn.Close()
		})
	}
	r.Cleanup(func() { end(nil) })
	return reg, end
}

// path is where the socket of a driver is.
func (r *rig) path(name string) string { return rules.Path(r.dir, name) }

// eventually waits until a condition holds; it is polled, since it is about files of another program.
func (r *rig) eventually(what string, holds func() bool) {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.Fatalf("it does not happen: %s", what)
}

// published waits for a socket that answers, and returns its file.
func (r *rig) published(name string) os.FileInfo {
	r.Helper()
	var file os.FileInfo
	r.eventually("the socket of "+name+" answers", func() bool {
		got, err := nameAt(r.Context(), r.path(name), time.Second)
		if err != nil || got != name {
			return false
		}
		file, err = os.Lstat(r.path(name))
		return err == nil
	})
	return file
}

// another waits for a socket that is not the given file.
func (r *rig) another(name string, than os.FileInfo) os.FileInfo {
	r.Helper()
	var file os.FileInfo
	r.eventually("a new socket of "+name, func() bool {
		file = r.published(name)
		return !os.SameFile(file, than) || !file.ModTime().Equal(than.ModTime())
	})
	return file
}

// kubelet does what a kubelet does with a socket: GetInfo, and then its answer.
func (r *rig) kubelet(name string, status *kubelet.RegistrationStatus) *kubelet.PluginInfo {
	r.Helper()
	connection, err := grpc.NewClient("unix://"+r.path(name), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.Fatal(err)
	}
	defer connection.Close()
	client := kubelet.NewRegistrationClient(connection)
	info, err := client.GetInfo(r.Context(), &kubelet.InfoRequest{})
	if err == nil && status != nil {
		_, err = client.NotifyRegistrationStatus(r.Context(), status)
	}
	if err != nil {
		r.Fatal(err)
	}
	return info
}

// says waits until the health check answers with the code and the text.
func (r *rig) says(reg *Registrar, code int, text string) {
	r.Helper()
	var gotCode int
	var gotText string
	defer func() {
		if r.Failed() {
			r.Logf("the health check says %d %q, want %d %q", gotCode, gotText, code, text)
		}
	}()
	r.eventually("the health check says "+text, func() bool {
		gotCode, gotText, _ = reg.Check(r.Context())
		return gotCode == code && contains(gotText, text)
	})
}
