package registrar

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/registrar/rules"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

const seen = "--kubelet-registration-path=/var/lib/kubelet/plugins/a/csi.sock"

// parse returns the role of a command line with one dash or two, and what is wrong with it.
func parse(args ...string) (*Role, error) {
	r := New()
	return r, rolestest.Parse(r, args...)
}

// NR-1 to NR-9: what each flag accepts.
func TestFlags(t *testing.T) {
	for _, tc := range []struct{ row, args, problem string }{
		{"NR-1", "", ""},
		{"NR-1", "--csi-address=unix:///csi/csi.sock", ""},
		{"NR-1", "--csi-address=csi.sock", "--csi-address"},
		{"NR-3", "--plugin-registration-path=/plugins", ""},
		{"NR-3", "--plugin-registration-path=plugins", "absolute"},
		{"NR-4", "--timeout=0s", "--timeout"},
		{"NR-5", "--http-endpoint=:9809", ""},
		{"NR-5", "--http-endpoint=:9809 --health-port=9809", "only one of them"},
		{"NR-5", "--http-endpoint=here", "HOST:PORT"},
		{"NR-6", "--health-port=9809", ""},
		{"NR-6", "--health-port=-1 --http-endpoint=:9809", ""},
		{"NR-6", "--health-port=70000", "65535"},
		{"NR-7", "--mode=registration", ""},
		{"NR-8", "--connection-timeout=15s", ""},
		{"NR-8", "--connection-timeout=soon", "soon"},
		{"NR-9", "-enable-pprof -automaxprocs -v=5 -logging-format=json", ""},
		{"NR-9", "--feature-gates=a=true", "unknown flag"},
		{"NR-9", "--leader-election", "unknown flag"},
		{"NR-9", "--metrics-cert-path=/certs", ""},
	} {
		_, err := parse(append(strings.Fields(tc.args), seen)...)
		if (tc.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s %s: %v, want %q", tc.row, tc.args, err, tc.problem)
		}
	}
	for args, want := range map[string]string{"": "", "--health-port=9809": ":9809", "--http-endpoint=1.2.3.4:1": "1.2.3.4:1", "--health-port=0": ""} {
		r, err := parse(append(strings.Fields(args), seen)...)
		if err != nil || r.address() != want {
			t.Errorf("NR-6 %s: %q, %v", args, r.address(), err)
		}
	}
	if _, err := parse(); err == nil || !strings.Contains(err.Error(), "--kubelet-registration-path: missing") {
		t.Errorf("NR-2: %v", err)
	}
}

// NR-7, NR-11: the probe of older manifests checks nothing but the path, and ends at once.
func TestProbeMode(t *testing.T) {
	r, err := parse(
		seen, "--mode=kubelet-registration-probe", "--csi-address=relative", "--health-port=1", "--http-endpoint=x",
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := parse("--mode=kubelet-registration-probe"); err == nil {
		t.Error("NR-11: no error without the path")
	}
}

// The command lines of charts (SM-1 to SM-11).
func TestCommandLinesOfCharts(t *testing.T) {
	for chart, args := range map[string]string{
		"aws-ebs-csi-driver":         "--csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock --v=2",
		"aws-ebs-csi-driver's probe": "--kubelet-registration-path=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock --mode=kubelet-registration-probe",
		"ceph-csi":                   "--v=1 --csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/rbd.csi.ceph.com/csi.sock",
		"csi-driver-nfs":             "--v=2 --csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/csi-nfsplugin/csi.sock",
		"democratic-csi":             "--v=5 --csi-address=/csi-data/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/org.democratic-csi.nfs/csi.sock",
		"longhorn":                   "--v=2 --csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/driver.longhorn.io/csi.sock",
		"lvm-localpv":                "--v=5 --csi-address=/plugin/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/lvm-localpv/csi.sock",
		"mayastor":                   "--csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/io.openebs.mayastor/csi.sock",
		"topolvm":                    "--csi-address=/run/topolvm/csi-topolvm.sock --kubelet-registration-path=/var/lib/kubelet/plugins/topolvm.io/node/csi-topolvm.sock --http-endpoint=:9808",
	} {
		if _, err := parse(strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", chart, err)
		}
	}
}

// node is a driver with a node service.
type node struct {
	scripted.Driver
	csi.UnimplementedNodeServer
}

// start starts the role beside a driver, and returns its address.
func start(t *testing.T, args ...string) (_ *Role, url string, end func()) {
	t.Helper()
	socket := scripted.Start(t, &node{Driver: scripted.Driver{Name: "csi.example.com"}})
	reason := filepath.Join(t.TempDir(), "reason")
	if err := os.WriteFile(reason, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := parse(append([]string{
		seen, "--csi-address=" + socket, "--plugin-registration-path=" + scripted.SocketDir(t),
		"--http-endpoint=127.0.0.1:0",
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	where := make(chan net.Addr, 1)
	r.Log, r.TerminationLog, r.Listened = (&rolestest.Log{}).Logger(), reason, func(a net.Addr) { where <- a }
	end = rolestest.InBackground(t, r.Run)
	return r, "http://" + (<-where).String(), end
}

// NR-14, NR-H4: what is served, and the reason in the termination message.
func TestServes(t *testing.T) {
	r, url, end := start(t)
	dir := r.Dir
	for path, want := range map[string]string{
		"/healthz":                       "200 ok: the kubelet has not asked yet",
		"/healthz/node-driver-registrar": "200 ok: the kubelet has not asked yet",
		"/readyz":                        "503 [-] node-driver-registrar: the kubelet has not asked yet",
		"/metrics":                       `csi_sidecar_operations_seconds_count{driver_name="csi.example.com",grpc_status_code="Unimplemented",method_name="/csi.v1.Node/NodeGetInfo"} 1`,
		"/livez":                         "200 ok",
	} {
		rolestest.ExpectGet(t, url+path, want)
	}
	if _, err := os.Lstat(rules.Path(dir, "csi.example.com")); err != nil {
		t.Error(err)
	}
	end()
	if text, err := os.ReadFile(r.TerminationLog); err != nil || !strings.Contains(string(text), "has not asked yet") {
		t.Errorf("NR-H4: the termination message is %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("NR-15: %v is left, %v", entries, err)
	}
}

// NR-5: a port that is taken ends the process.
func TestPortIsTaken(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r, err := parse(seen, "--http-endpoint="+listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r.Log = (&rolestest.Log{}).Logger()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Run(ctx); err == nil || !strings.Contains(err.Error(), "--http-endpoint=127.0.0.1:") {
		t.Errorf("NR-5: %v", err)
	}
}
