package driver

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginregistration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/test/scripted"
)

// A state directory keeps its backend, whatever the machine can do today.
func TestAStateDirectoryKeepsItsBackend(t *testing.T) {
	choose := func(state, flag string) (string, error) {
		d := New()
		d.Backend = flag
		choice, err := d.chooseBackend(state)
		if err == nil {
			err = keepKind(state, choice.kind)
		}
		return choice.kind, err
	}
	state := t.TempDir()
	if kind, err := choose(state, BackendDirectory); kind != BackendDirectory || err != nil {
		t.Fatalf("chose %s, %v", kind, err)
	}
	if kind, err := choose(state, ""); kind != BackendDirectory || err != nil {
		t.Errorf("the next start chose %s, %v", kind, err)
	}
	if _, err := choose(state, backendLoopfile); err == nil || !strings.Contains(err.Error(), "holds volumes of the backend directory") {
		t.Errorf("another backend: %v", err)
	}
	newer := t.TempDir()
	if err := os.WriteFile(filepath.Join(newer, kindFile), []byte("tape\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := choose(newer, ""); err == nil || !strings.Contains(err.Error(), "not known to this version") {
		t.Errorf("a newer state directory: %v", err)
	}
}

func TestTheDefaultBackendIsWhatTheMachineCanDo(t *testing.T) {
	state := t.TempDir()
	want := backendLoopfile
	if err := loopfile.Usable(state); err != nil {
		t.Log("no loop images here:", err)
		want = BackendDirectory
	}
	choice, err := New().chooseBackend(state)
	if err != nil || choice.kind != want || choice.reason == "" {
		t.Errorf("chose %+v, %v, want %s", choice, err, want)
	}
}

// playKubelet does what a kubelet's plugin watcher does with a new socket: it calls GetInfo, calls
// the driver at the endpoint in the answer, and reports the result.
func playKubelet(t *testing.T, dir string) {
	t.Helper()
	path := seen(t, func() (string, bool) {
		found, _ := filepath.Glob(filepath.Join(dir, "*-reg.sock"))
		return strings.Join(found, ""), len(found) == 1
	})
	// As kubelet does: a socket that is there may not be listened on yet.
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pluginregistration.NewRegistrationClient(conn)
	info, err := client.GetInfo(t.Context(), &pluginregistration.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := csirpc.Dial(csirpc.Config{Endpoint: info.GetEndpoint(), Timeout: probeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	answer := &pluginregistration.RegistrationStatus{PluginRegistered: true}
	if met, err := driver.Describe(t.Context()); err != nil || met.Name != info.GetName() {
		answer = &pluginregistration.RegistrationStatus{Error: "not the driver that was announced"}
		t.Errorf("at %s: %+v, %v", info.GetEndpoint(), met, err)
	}
	if _, err := client.NotifyRegistrationStatus(t.Context(), answer); err != nil {
		t.Fatal(err)
	}
}

// seen polls until look returns true, with a timeout for a machine under load.
func seen[T any](t *testing.T, look func() (T, bool)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, ok := look()
		if ok {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("did not happen; last seen: %v", got)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// The driver as a node runs it: registration, health and metrics in one process.
func TestTheDriverNeedsNoSidecar(t *testing.T) {
	dir := scripted.SocketDir(t)
	address := make(chan string, 1)
	d := New()
	d.Log = logr.Discard().WithSink(mute{})
	d.Endpoint, d.StateDir, d.Backend = "unix://"+filepath.Join(dir, "csi.sock"), filepath.Join(dir, "state"), BackendDirectory
	d.RegistrationDir, d.HTTPEndpoint, d.Listened = filepath.Join(dir, "reg"), "127.0.0.1:0", func(a string) { address <- a }
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*", "*.sock")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}()
	var base string
	select {
	case at := <-address:
		base = "http://" + at
	case err := <-ended:
		t.Fatal(err)
	}
	playKubelet(t, d.RegistrationDir)
	// The driver knows of its registration a moment after the kubelet does.
	ready := seen(t, func() (string, bool) {
		code, body := fetch(t, base+"/readyz")
		return body, code == http.StatusOK
	})
	for _, part := range []string{"[+] registration: ok", "[+] driver: ok"} {
		if !strings.Contains(ready, part) {
			t.Errorf("readyz has no %q: %s", part, ready)
		}
	}
	if code, body := fetch(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, body)
	}
	if _, body := fetch(t, base+"/metrics"); !strings.Contains(body, `purser_driver_calls_seconds_count{grpc_status_code="OK",method="Probe"}`) {
		t.Errorf("metrics lack the calls:\n%s", body)
	}
	// The health check has the result of Probe.
	if err := os.RemoveAll(filepath.Join(d.StateDir, "volumes")); err != nil {
		t.Fatal(err)
	}
	if code, body := fetch(t, base+"/livez"); code != http.StatusServiceUnavailable || !strings.Contains(body, "volumes") {
		t.Errorf("livez of a broken driver: %d %s", code, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// mute is a log sink that drops all lines.
type mute struct{}

func (mute) Init(logr.RuntimeInfo)            {}
func (mute) Enabled(int) bool                 { return false }
func (mute) Info(int, string, ...any)         {}
func (mute) Error(error, string, ...any)      {}
func (m mute) WithValues(...any) logr.LogSink { return m }
func (m mute) WithName(string) logr.LogSink   { return m }
