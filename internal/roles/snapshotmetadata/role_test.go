package snapshotmetadata

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/snapshotmetadata"
	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// parse returns the role of a command line with one dash or two, and what is wrong with it.
func parse(args ...string) (*Role, error) {
	r := New()
	return r, rolestest.Parse(r, args...)
}

// CB-1 to CB-10: what each flag accepts.
func TestFlags(t *testing.T) {
	const pair = "--tls-cert=/c/tls.crt --tls-key=/c/tls.key "
	for _, tc := range []struct{ row, args, problem string }{
		{"CB-1", pair, ""},
		{"CB-1", pair + "-csi-address=csi.sock", "--csi-address"},
		{"CB-2", pair + "-timeout=0s", "--timeout"},
		{"CB-3", pair + "-port=50052", ""},
		{"CB-4", "", "--tls-cert: missing"},
		{"CB-4", "--tls-cert=/c/tls.crt", "--tls-key: missing"},
		{"CB-5", pair + "--audience=cbt", ""},
		{"CB-6", pair + "--max-streaming-duration-min=-1", ""},
		{"CB-7", pair + "--http-endpoint=:9090 --metrics-path=/m --disable-metrics", ""},
		{"CB-7", pair + "--metrics-path=/health", "--metrics-path"},
		{"CB-8", pair + "--kube-api-qps=5 --kube-api-burst=10 --kubeconfig=/k", ""},
		{
			"CB-9",
			pair + "--tls-min-version=VersionTLS13 --tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 " +
				"--tls-curve-preferences=X25519,CurveP256",
			"",
		},
		{"CB-9", pair + "--tls-min-version=VersionTLS11", "--tls-min-version"},
		{"CB-9", pair + "--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA", "--tls-cipher-suites"},
		{"CB-9", pair + "--tls-curve-preferences=secp256r1", "--tls-curve-preferences"},
		{"CB-10", pair + "-logtostderr -stderrthreshold=INFO -v=5 -vmodule=a=1", ""},
		{"CB-10", pair + "--leader-election", "unknown flag"},
		{"CB-10", pair + "--feature-gates=a=true", "unknown flag"},
	} {
		_, err := parse(strings.Fields(tc.args)...)
		if (tc.problem == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s %s: %v, want %q", tc.row, tc.args, err, tc.problem)
		}
	}
	r, _ := parse()
	if r.Port != 50051 || r.HTTPEndpoint != ":8080" || r.Timeout != time.Minute || r.longest() != 10*time.Minute {
		t.Errorf("CB-2, CB-3, CB-6, CB-7: %+v", r)
	}
	if r, _ = parse("--max-streaming-duration-min=0"); r.longest() != 10*time.Minute {
		t.Errorf("CB-6: %s", r.longest())
	}
	t.Setenv("TLS_CERT_PATH", "/e/tls.crt")
	t.Setenv("TLS_KEY_PATH", "/e/tls.key")
	if r, err := parse("--tls-key=/c/tls.key"); err != nil || r.cert() != "/e/tls.crt" || r.key() != "/c/tls.key" {
		t.Errorf("CB-4: %v, %s, %s", err, r.cert(), r.key())
	}
}

// start runs the role beside a driver, without an API server. It returns a connection to the
// service, and the URL of HTTP.
func start(
	t *testing.T, plugin []csi.PluginCapability_Service_Type, newest uint16, args ...string,
) (_ *Role, connect func() (*grpc.ClientConn, string)) {
	t.Helper()
	socket, dir := scripted.Start(t, &scripted.Driver{Name: "csi.example.com", Plugin: plugin}), t.TempDir()
	chain := rolestest.WriteCertificate(t, dir)
	r, err := parse(append(args, "--csi-address="+socket, "--port=0", "--http-endpoint=127.0.0.1:0",
		"--tls-cert="+filepath.Join(dir, "tls.crt"), "--tls-key="+filepath.Join(dir, "tls.key"))...)
	if err != nil {
		t.Fatal(err)
	}
	health, service := make(chan net.Addr, 1), make(chan net.Addr, 1)
	r.API, r.Log = &rest.Config{Host: "http://127.0.0.1:1"}, (&rolestest.Log{}).Logger()
	r.Listened, r.Serving = func(a net.Addr) { health <- a }, func(a net.Addr) { service <- a }
	return r, func() (*grpc.ClientConn, string) {
		return rolestest.Connect(t, <-service, chain, newest), "http://" + (<-health).String()
	}
}

var able = []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE}

// CB-3, CB-7, CB-19, CB-20: the service, its health and its metrics.
func TestServes(t *testing.T) {
	r, connect := start(t, able, tls.VersionTLS13)
	rolestest.InBackground(t, r.Run)
	conn, url := connect()
	expect := func(path, want string) { t.Helper(); rolestest.ExpectGet(t, url+path, want) }
	expect("/health", "200 ok")
	expect("/readyz", "200 [+] csi-snapshot-metadata: ok")
	_, err := backupclient.Collect(t.Context(), conn, backupclient.Request{Namespace: "shop", Snapshot: "monday"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "securityToken is missing") {
		t.Errorf("CB-15: %v", err)
	}
	expect(
		"/metrics",
		`snapshot_metadata_controller_operations_seconds_count{driver_name="csi.example.com",grpc_status_code="InvalidArgument",method_name="MetadataAllocated"} 1`,
	)
	_, err = backupclient.Collect(t.Context(), conn, backupclient.Request{
		Token: "t", Namespace: "shop", Snapshot: "monday",
	})
	if status.Code(err) != codes.Internal ||
		!strings.Contains(err.Error(), "failed to find the SnapshotMetadataService CR for driver") {
		t.Errorf("CB-15 without an API server: %v", err)
	}
}

// CB-9: a client of an older version of TLS is refused.
func TestVersionsOfTLS(t *testing.T) {
	r, connect := start(t, able, tls.VersionTLS12, "--tls-min-version=VersionTLS13", "--disable-metrics")
	rolestest.InBackground(t, r.Run)
	conn, url := connect()
	_, err := backupclient.Collect(t.Context(), conn, backupclient.Request{})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("CB-9: %v", err)
	}
	if got, err := rolestest.Get(t.Context(), url+"/metrics"); err != nil || !strings.HasPrefix(got, "404") {
		t.Errorf("CB-7: %s, %v", got, err)
	}
}

// CB-11: a driver without the service ends the process with an error.
func TestDriverWithoutTheService(t *testing.T) {
	r, _ := start(t, nil, tls.VersionTLS13)
	if err := r.Run(t.Context()); !errors.Is(err, snapshotmetadata.ErrUnable) {
		t.Errorf("CB-11: %v", err)
	}
}

// CB-4: a certificate that is not there ends the process with an error that names the flag.
func TestMissingCertificate(t *testing.T) {
	r, _ := start(t, able, tls.VersionTLS13)
	r.CertPath = filepath.Join(t.TempDir(), "none")
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-cert="+r.CertPath) {
		t.Errorf("CB-4: %v", err)
	}
}

// CB-4: a part whose certificate comes later serves when it runs again.
func TestCertificateThatComesLater(t *testing.T) {
	r, _ := start(t, able, tls.VersionTLS13)
	there := r.CertPath
	r.CertPath = filepath.Join(t.TempDir(), "crt")
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: r.CSIAddress, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	part, err := r.New(Parts{Conn: conn, API: r.API, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Run(t.Context()); err == nil {
		t.Fatal("CB-4: it runs without a certificate")
	}
	if err := part.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "--tls-cert="+r.CertPath) {
		t.Errorf("CB-4, CB-19: %v", err)
	}
	if err := os.Symlink(there, r.CertPath); err != nil {
		t.Fatal(err)
	}
	rolestest.InBackground(t, part.Run)
	rolestest.Eventually(t, "the part serves", func() error { return part.Check(t.Context()) })
}
