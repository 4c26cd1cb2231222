package livenessprobe

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// parse returns the role of a command line with one dash or two, and what is wrong with it.
func parse(args ...string) (*Role, error) {
	r := New()
	return r, rolestest.Parse(r, args...)
}

// LP-1 to LP-6: what each flag accepts.
func TestFlags(t *testing.T) {
	for _, tc := range []struct{ row, args, problem string }{
		{"LP-1", "", ""},
		{"LP-1", "--csi-address=/csi/csi.sock", ""},
		{"LP-1", "--csi-address=csi.sock", "--csi-address"},
		{"LP-2", "--probe-timeout=10s", ""},
		{"LP-2", "--probe-timeout=0s", "--probe-timeout"},
		{"LP-3", "--health-port=29652", ""},
		{"LP-3", "--health-port=http", ""},
		{"LP-3", "--health-port=99999", "from 0 to 65535"},
		{"LP-4", "--http-endpoint=:9808", ""},
		{"LP-4", "--http-endpoint=:9808 --health-port=9808", ""},
		{"LP-4", "--http-endpoint=:9808 --health-port=9809", "only one of them"},
		{"LP-4", "--http-endpoint=:9808 --metrics-address=:9810", "only one of them"},
		{"LP-5", "--metrics-address=:9810 --metrics-path=/m", ""},
		{"LP-5", "--metrics-address=:9810 --metrics-path=m", "--metrics-path"},
		{"LP-6", "-automaxprocs -v=4 -vmodule=a=1", ""},
		{"LP-6", "--connection-timeout=3s", ""},
		{"LP-6", "--feature-gates=a=true", "unknown flag"},
		{"SM-22 aws-ebs", "--csi-address=/csi/csi.sock", ""},
		{"SM-24 longhorn", "--v=4 --csi-address=/csi/csi.sock", ""},
		{"SM-28 csi-driver-nfs", "--csi-address=/csi/csi.sock --probe-timeout=3s --http-endpoint=localhost:29653 --v=2", ""},
		{"SM-23 topolvm", "--csi-address=/run/topolvm/csi-topolvm.sock --http-endpoint=:9808", ""},
	} {
		_, err := parse(strings.Fields(tc.args)...)
		if (tc.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s %s: %v, want %q", tc.row, tc.args, err, tc.problem)
		}
	}
	if r, _ := parse(); r.PortAddress() != "0.0.0.0:9808" || r.Timeout != 3*time.Second {
		t.Errorf("LP-2, LP-3: %s, %s", r.PortAddress(), r.Timeout)
	}
}

// LP-3 to LP-5, LP-13: with http-endpoint health and metrics are served together, and without it the port
// has no metrics.
func TestServes(t *testing.T) {
	socket := scripted.Start(t, &scripted.Driver{Name: "csi.example.com"})
	calls := `csi_sidecar_operations_seconds_count{driver_name="csi.example.com",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"}`
	for _, tc := range []struct {
		args string
		want map[string]string
	}{
		{"--http-endpoint=127.0.0.1:0", map[string]string{"/healthz": "200 ok", "/metrics": calls, "/readyz": "200 [+] driver: ok"}},
		{"--health-port=0", map[string]string{"/healthz": "200 ok", "/metrics": "404"}},
		{"--health-port=0 --metrics-address=127.0.0.1:0", map[string]string{"/healthz": "200 ok", "/metrics": "404"}},
	} {
		r, err := parse(append(strings.Fields(tc.args), "--csi-address="+socket)...)
		if err != nil {
			t.Fatal(err)
		}
		where := make(chan net.Addr, 1)
		r.Log, r.Listened = (&rolestest.Log{}).Logger(), func(a net.Addr) { where <- a }
		end := rolestest.InBackground(t, r.Run)
		_, port, err := net.SplitHostPort((<-where).String())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range slices.Sorted(maps.Keys(tc.want)) { // the metrics count the calls for /healthz
			rolestest.ExpectGet(t, "http://127.0.0.1:"+port+path, tc.want[path])
		}
		end()
	}
}

// LP-14: a port that is taken ends the process with an error.
func TestPortIsTaken(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r, err := parse("--csi-address=/nowhere/csi.sock", "--health-port="+port)
	if err != nil {
		t.Fatal(err)
	}
	r.Log = (&rolestest.Log{}).Logger()
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--health-port=0.0.0.0:"+port) {
		t.Errorf("LP-14: %v", err)
	}
}
