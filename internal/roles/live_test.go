package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
)

// liveCluster is a real API server, without controllers.
func liveCluster(t *testing.T) *rest.Config {
	t.Helper()
	return liveServer(t).RESTConfig()
}

// liveServer is one that logs what it is asked.
func liveServer(t *testing.T) *cluster.Cluster {
	t.Helper()
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Skip(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: t.TempDir(), Binaries: binaries, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

// liveDriver is the built-in driver; it returns its socket, and what ends it.
func liveDriver(t *testing.T) (socket string, end func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "purser") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return startLiveDriver(t, dir)
}

func startLiveDriver(t *testing.T, dir string) (socket string, end func()) {
	t.Helper()
	d := NewDriver()
	d.Log, d.Notice, d.Version = (&logbook{}).logger(), func(string) {}, "test"
	d.Endpoint, d.StateDir, d.NodeID = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), "node"
	d.Backend = backendDirectory // takes volumes of any size
	return d.Endpoint, inBackground(t, d.Run)
}

// inBackground runs until the test or the caller ends it, and fails the test when it ends by itself.
func inBackground(t *testing.T, run func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); ctx.Err() == nil || (err != nil && !errors.Is(err, context.Canceled)) {
			t.Errorf("ended: %v", err)
		}
	}()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return end
}

// logbook keeps the lines of a log.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 4})
}

func (b *logbook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.lines...)
}

// liveProvisioner is one with leader election that is quick, and with HTTP on a free port.
func liveProvisioner(t *testing.T, api *rest.Config, socket string, args ...string) (p *Provisioner, address func() string) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	p, err := parsed(t, append([]string{
		"--csi-address=" + socket, "--leader-election", "--leader-election-namespace=default", "--http-endpoint=127.0.0.1:0",
		"--leader-election-lease-duration=3s", "--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms",
	}, args...)...)
	if err != nil || p.Validate() != nil {
		t.Fatal(err, p.Validate())
	}
	p.Version, p.API, p.Log = "test", api, (&logbook{}).logger()
	where := make(chan net.Addr, 1)
	p.listened = func(a net.Addr) { where <- a }
	return p, sync.OnceValue(func() string { return fmt.Sprintf("http://%s", <-where) })
}

func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func withLogger(t *testing.T, b *logbook) context.Context {
	t.Helper()
	return logr.NewContext(t.Context(), b.logger())
}

func rbacScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := kube.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}
