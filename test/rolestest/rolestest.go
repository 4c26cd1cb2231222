package rolestest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/test/scripted"
)

// LiveCluster starts a real API server without controllers.
func LiveCluster(t *testing.T) *rest.Config {
	t.Helper()
	return LiveServer(t).RESTConfig()
}

// LiveServer starts a real API server with an audit log, and these components.
func LiveServer(t *testing.T, components ...cluster.Component) *cluster.Cluster {
	t.Helper()
	return StartServer(t, cluster.Config{Components: components})
}

// StartServer is [LiveServer] with more settings. It sets the folder and the programs itself.
func StartServer(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	binaries, err := cluster.FindBinaries(cfg.Components.Programs(), programs(t))
	if err != nil {
		t.Skip(err)
	}
	cfg.Dir, cfg.Binaries, cfg.Audit = t.TempDir(), binaries, true
	c, err := cluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

// LiveDriver starts the built-in driver. It returns its socket, and a function that stops it.
func LiveDriver(t *testing.T) (socket string, end func()) {
	t.Helper()
	return StartLiveDriver(t, scripted.SocketDir(t))
}

// StartLiveDriver starts the built-in driver with its socket and state in dir.
func StartLiveDriver(t *testing.T, dir string) (socket string, end func()) {
	t.Helper()
	d := driver.New()
	d.Log, d.Notice, d.Version = (&Log{}).Logger(), func(string) {}, "test"
	d.Endpoint, d.StateDir, d.NodeID = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), "node"
	d.Backend = driver.BackendDirectory // takes volumes of any size
	return d.Endpoint, InBackground(t, d.Run)
}

// InBackground runs until the test or the caller ends it, and fails the test when it ends by itself.
func InBackground(t *testing.T, run func(context.Context) error) (end func()) {
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

// Log keeps the lines of a log.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Logger returns a logger whose lines are kept.
func (b *Log) Logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 4})
}

// Lines returns what was logged so far.
func (b *Log) Lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.lines...)
}

// Eventually waits until holds returns nil, for 30 seconds at most.
func Eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// WithLogger returns the context of the test with a logger whose lines are kept.
func WithLogger(t *testing.T, b *Log) context.Context {
	t.Helper()
	return logr.NewContext(t.Context(), b.Logger())
}

// Scheme returns the scheme of the program, with the kinds of RBAC and of Deployments.
func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := kube.NewScheme()
	if err := errors.Join(rbacv1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// programs is the folder of the programs of a cluster, bin at the root of the module.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin")
		}
	}
	t.Fatal("no go.mod in this folder or above it")
	return ""
}
