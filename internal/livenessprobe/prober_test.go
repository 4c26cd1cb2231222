package livenessprobe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/test/scripted"
)

// driver answers Probe as the test wants.
type driver struct {
	csi.UnimplementedIdentityServer

	probes, names atomic.Int32
	mu            sync.Mutex
	probe         func(context.Context) (*csi.ProbeResponse, error)
	name          func(context.Context) error
}

func (d *driver) set(probe func(context.Context) (*csi.ProbeResponse, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probe = probe
}

func (d *driver) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	d.probes.Add(1)
	d.mu.Lock()
	probe := d.probe
	d.mu.Unlock()
	return probe(ctx)
}

func (d *driver) GetPluginInfo(ctx context.Context, _ *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	d.names.Add(1)
	if d.name != nil {
		if err := d.name(ctx); err != nil {
			return nil, err
		}
	}
	return &csi.GetPluginInfoResponse{Name: "csi.example.com"}, nil
}

func ready(context.Context) (*csi.ProbeResponse, error) { return &csi.ProbeResponse{}, nil }

func hangs(ctx context.Context) (*csi.ProbeResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// rig is a prober behind an HTTP server, and the socket of a driver.
type rig struct {
	*testing.T
	socket string
	driver *driver
	server *grpc.Server
	url    string
}

func newRig(t *testing.T, timeout time.Duration) *rig {
	t.Helper()
	dir := scripted.SocketDir(t)
	r := &rig{T: t, socket: filepath.Join(dir, "csi.sock"), driver: &driver{probe: ready}}
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: r.socket, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := New(Config{Conn: conn, Timeout: timeout})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	web := httptest.NewServer(p)
	r.url = web.URL
	t.Cleanup(func() {
		web.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *rig) start() {
	r.Helper()
	_ = os.Remove(r.socket)
	listener, err := (&net.ListenConfig{}).Listen(r.Context(), "unix", r.socket)
	if err != nil {
		r.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, r.driver)
	go func() { _ = server.Serve(listener) }()
	r.server = server
	r.Cleanup(server.Stop)
}

// check makes one health check.
func (r *rig) check(ctx context.Context) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// says waits until a check answers so.
func (r *rig) says(code int, text string) {
	r.Helper()
	var got string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		have, body, err := r.check(r.Context())
		if err == nil && have == code && strings.Contains(body, text) {
			return
		}
		got = fmt.Sprint(have, body, err)
	}
	r.Fatalf("the check says %s, want %d %s", got, code, text)
}

// LP-12: the answers of Probe.
func TestAnswersOfProbe(t *testing.T) {
	r := newRig(t, time.Second)
	r.start()
	r.says(200, "ok")
	for _, tc := range []struct {
		row   string
		probe func(context.Context) (*csi.ProbeResponse, error)
		code  int
		text  string
	}{
		{"LP-12 no value", ready, 200, "ok"},
		{"LP-12 ready", func(context.Context) (*csi.ProbeResponse, error) {
			return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
		}, 200, "ok"},
		{"LP-12 not ready", func(context.Context) (*csi.ProbeResponse, error) {
			return &csi.ProbeResponse{Ready: wrapperspb.Bool(false)}, nil
		}, 500, "driver responded but is not ready"},
		{"LP-12 FailedPrecondition", func(context.Context) (*csi.ProbeResponse, error) {
			return nil, status.Error(codes.FailedPrecondition, "no module \x1b[2Jloaded")
		}, 500, `no module \x1b[2Jloaded`},
		{"LP-2 it hangs", hangs, 500, "DeadlineExceeded"},
	} {
		r.driver.set(tc.probe)
		code, text, err := r.check(t.Context())
		if err != nil || code != tc.code || !strings.Contains(text, tc.text) || tc.text == "ok" && text != "ok" {
			t.Errorf("%s: %d %q %v, want %d %q", tc.row, code, text, err, tc.code, tc.text)
		}
	}
	if n := r.driver.names.Load(); n != 1 {
		t.Errorf("LP-10: %d calls of GetPluginInfo", n)
	}
}

// LP-11, LP-H3: before the driver has said its name the check answers 503, for a driver that does not
// listen and for one that hangs.
func TestBeforeTheName(t *testing.T) {
	r := newRig(t, time.Second)
	release := make(chan struct{})
	r.driver.name = func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.says(503, "waiting for the csi driver")
	r.start()
	for r.driver.names.Load() == 0 {
		r.says(503, "waiting for the csi driver")
	}
	if n := r.driver.probes.Load(); n != 0 {
		t.Errorf("%d calls of Probe before the name is known", n)
	}
	close(release)
	r.says(200, "ok")
}

// LP-H1: checks that wait for a driver that hangs share one Probe, and a caller that closes its request
// ends neither the Probe nor the wait of the others.
func TestChecksShareOneProbe(t *testing.T) {
	r := newRig(t, 10*time.Second)
	r.start()
	r.says(200, "ok")
	before := r.driver.probes.Load()
	release := make(chan struct{})
	r.driver.set(func(ctx context.Context) (*csi.ProbeResponse, error) {
		select {
		case <-release:
			return &csi.ProbeResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	impatient, cancel := context.WithCancel(t.Context())
	closed := make(chan error, 1)
	go func() { _, _, err := r.check(impatient); closed <- err }()
	var waiting sync.WaitGroup
	var good atomic.Int32
	for range 20 {
		waiting.Go(func() {
			if code, _, err := r.check(t.Context()); err == nil && code == 200 {
				good.Add(1)
			}
		})
	}
	for r.driver.probes.Load() == before {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-closed; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that closed its request: %v", err)
	}
	close(release)
	waiting.Wait()
	// A check that begins after the answer has a Probe of its own.
	if n := r.driver.probes.Load() - before; good.Load() != 20 || n > 21 || n < 1 {
		t.Errorf("%d checks of 20 passed, with %d calls of Probe", good.Load(), n)
	}
}

// LP-H2: one connection for all checks, which is made again after a restart of the driver; a check waits
// for it as upstream's waits for its own.
func TestOneConnection(t *testing.T) {
	r := newRig(t, 5*time.Second)
	r.start()
	r.says(200, "ok")
	for range 50 {
		if code, text, err := r.check(t.Context()); err != nil || code != 200 {
			t.Fatalf("%d %s %v", code, text, err)
		}
	}
	r.server.Stop()
	answer := make(chan string, 1)
	go func() {
		code, text, err := r.check(t.Context())
		answer <- fmt.Sprint(code, " ", text, " ", err)
	}()
	r.start()
	if got := <-answer; got != "200 ok <nil>" {
		t.Errorf("during a restart that takes less than the timeout: %s", got)
	}
}
