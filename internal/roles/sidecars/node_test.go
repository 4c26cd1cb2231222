package sidecars

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/internal/registrar/rules"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// nodeDriver is a driver with a node service.
type nodeDriver struct {
	scripted.Driver
	csi.UnimplementedNodeServer
}

// connections counts those to the driver.
type connections struct{ made atomic.Int32 }

func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                       {}
func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, begins := s.(*stats.ConnBegin); begins {
		c.made.Add(1)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// OC-3, OC-12, NR-12, LP-12: the half of a node without controllers registers the driver and answers its
// probe, by one connection and one HTTP server, without an API server.
func TestHalfOfANode(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("KUBE_NODE_NAME", "")
	made, dir := &connections{}, scripted.SocketDir(t)
	driver := &nodeDriver{Driver: scripted.Driver{Name: "csi.example.com"}}
	socket := scripted.Start(t, driver, grpc.StatsHandler(made))

	s := New()
	health := freePort(t)
	if err := rolestest.Parse(s, "--node", "--csi-address="+socket, "--kubelet-registration-path=/csi.sock",
		"--plugin-registration-path="+dir, "--http-endpoint=127.0.0.1:0", "--health-port="+health); err != nil {
		t.Fatal(err)
	}
	where := make(chan net.Addr, 1)
	s.Log, s.Listened = (&rolestest.Log{}).Logger(), func(a net.Addr) { where <- a }
	s.Registrar.TerminationLog = filepath.Join(t.TempDir(), "none")
	end := rolestest.InBackground(t, s.Run)
	url := "http://" + (<-where).String()
	expect := func(url, want string) { t.Helper(); rolestest.ExpectGet(t, url, want) }
	expect(url+"/healthz/livenessprobe", "200 ok")
	expect("http://127.0.0.1:"+health+"/healthz", "200 ok")
	expect("http://127.0.0.1:"+health+"/metrics", "404")
	expect(url+"/healthz", "200 ok")
	expect(url+"/healthz/node-driver-registrar", "200 ok: the kubelet has not asked yet")
	expect(url+"/readyz", "503 [-] node-driver-registrar")
	expect(url+"/healthz/attacher", "404")

	connection, err := grpc.NewClient("unix://"+rules.Path(dir, "csi.example.com"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := kubelet.NewRegistrationClient(connection).NotifyRegistrationStatus(
		t.Context(), &kubelet.RegistrationStatus{PluginRegistered: true},
	); err != nil {
		t.Fatal(err)
	}
	expect(url+"/readyz", "200 [+] node-driver-registrar: ok")
	expect(url+"/metrics", `purser_driver_registered{driver_name="csi.example.com"} 1`)
	expect(url+"/metrics", `csi_sidecar_operations_seconds_count{driver_name="csi.example.com",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"}`)
	if n := made.made.Load(); n != 1 {
		t.Errorf("%d connections to the driver", n)
	}
	end()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("NR-15: %v is left, %v", entries, err)
	}
}
