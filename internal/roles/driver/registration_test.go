package driver

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/purser-csi/purser/test/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const csiSocket = "/var/lib/kubelet/plugins/csi.purser/csi.sock"

// shortDir keeps the path of the socket below the kernel's limit.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := scripted.SocketDir(t)
	return dir
}

func start(t *testing.T, dir string) (s *Server, stop func() error) {
	t.Helper()
	s, err := NewRegistration(Config{Dir: dir, Name: "csi.purser", Socket: csiSocket})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Serving():
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	stopped := false
	stop = func() error {
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if !stopped {
			_ = stop()
		}
	})
	return s, stop
}

// watcher does what the kubelet's plugin watcher does with every socket that
// it finds in the folder.
func watcher(t *testing.T, dir string) kubelet.RegistrationClient {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v; want one socket", entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || info.Mode().Type() != fs.ModeSocket || strings.HasPrefix(entries[0].Name(), ".") {
		t.Fatalf("%s is no socket that the kubelet looks at: %v", entries[0].Name(), err)
	}
	connection, err := grpc.NewClient("unix://"+filepath.Join(dir, entries[0].Name()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return kubelet.NewRegistrationClient(connection)
}

func TestTheKubeletMeetsTheDriver(t *testing.T) {
	dir := shortDir(t)
	s, stop := start(t, dir)
	client := watcher(t, dir)
	info, err := client.GetInfo(t.Context(), &kubelet.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != "CSIPlugin" || info.GetName() != "csi.purser" || info.GetEndpoint() != csiSocket ||
		len(info.GetSupportedVersions()) != 1 || info.GetSupportedVersions()[0] != "1.0.0" {
		t.Errorf("info: %v", info)
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "has not answered") {
		t.Errorf("before the answer: %v", err)
	}
	refused := &kubelet.RegistrationStatus{Error: "no such node"}
	if _, err := client.NotifyRegistrationStatus(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "no such node") {
		t.Errorf("refused: %v", err)
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), &kubelet.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Errorf("registered: %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// A killed driver leaves its socket, which the next one replaces; a live one
// keeps it.
func TestTheSocketOfAPredecessor(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "csi.purser-reg.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	start(t, dir)
	if _, err := watcher(t, dir).GetInfo(t.Context(), &kubelet.InfoRequest{}); err != nil {
		t.Error(err)
	}
	second, err := NewRegistration(Config{Dir: dir, Name: "csi.purser", Socket: csiSocket})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already served") {
		t.Errorf("a second driver: %v", err)
	}
}

func TestConfigMistakes(t *testing.T) {
	for want, config := range map[string]Config{
		"registration folder": {Dir: "plugins", Name: "a", Socket: csiSocket},
		"for the kubelet":     {Dir: "/plugins", Name: "a", Socket: "csi.sock"},
		"name":                {Dir: "/plugins", Socket: csiSocket},
		"shorter path":        {Dir: "/" + strings.Repeat("x", 100), Name: "a", Socket: csiSocket},
	} {
		if _, err := NewRegistration(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", config, err, want)
		}
	}
}
