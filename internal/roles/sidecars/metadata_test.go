package sidecars

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// CB-3, CB-19, OC-12: the service of snapshot metadata as a component, by the connection and the
// HTTP server of all. For a driver without the capability, and without a certificate, the others
// work, and the readiness says why this one does not.
func TestSnapshotMetadataIsAComponent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plugin []csi.PluginCapability_Service_Type
		noCert bool
		want   map[string]string
	}{
		{
			"able",
			[]csi.PluginCapability_Service_Type{csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE},
			false,
			map[string]string{
				"/healthz/snapshot-metadata": "200 ok", "/readyz": "200 [+] snapshot-metadata: ok",
				"/healthz/livenessprobe": "200 ok",
			},
		},
		{"unable", nil, false, map[string]string{
			"/healthz/snapshot-metadata": "503", "/readyz": "SNAPSHOT_METADATA_SERVICE",
			"/healthz/livenessprobe": "200 ok",
		}},
		{"CB-4 without a certificate", nil, true, map[string]string{
			"/healthz/snapshot-metadata": "503", "/readyz": "--tls-cert=", "/healthz/livenessprobe": "200 ok",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := &connections{}
			cert := "tls.crt"
			if tc.noCert {
				cert = "none"
			}
			url, service := startMetadata(t, made, tc.plugin, cert)
			for path, want := range tc.want {
				rolestest.ExpectGet(t, url+path, want)
			}
			if tc.plugin == nil {
				return
			}
			_, err := backupclient.Collect(
				t.Context(), service(), backupclient.Request{Namespace: "shop", Snapshot: "monday"},
			)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "securityToken is missing") {
				t.Errorf("CB-15: %v", err)
			}
			if n := made.made.Load(); n != 1 {
				t.Errorf("%d connections to the driver", n)
			}
		})
	}
}

// startMetadata runs the probe and the service of snapshot metadata. It returns the URL of HTTP,
// and a function that connects to the service. cert is the file of the certificate: tls.crt is there.
func startMetadata(
	t *testing.T, made *connections, plugin []csi.PluginCapability_Service_Type, cert string,
) (string, func() *grpc.ClientConn) {
	t.Helper()
	driver := &scripted.Driver{Name: "csi.example.com", Plugin: plugin}
	socket, dir := scripted.Start(t, driver, grpc.StatsHandler(made)), t.TempDir()
	chain := rolestest.WriteCertificate(t, dir)
	s := New()
	if err := rolestest.Parse(s, "--controllers=livenessprobe", "--snapshot-metadata", "--csi-address="+socket,
		"--http-endpoint=127.0.0.1:0", "--snapshot-metadata-port=0",
		"--tls-cert="+filepath.Join(dir, cert), "--tls-key="+filepath.Join(dir, "tls.key")); err != nil {
		t.Fatal(err)
	}
	where, service := make(chan net.Addr, 1), make(chan net.Addr, 1)
	s.API, s.Log = &rest.Config{Host: "http://127.0.0.1:1"}, (&rolestest.Log{}).Logger()
	s.Listened, s.Metadata.Serving = func(a net.Addr) { where <- a }, func(a net.Addr) { service <- a }
	rolestest.InBackground(t, s.Run)
	return "http://" + (<-where).String(), func() *grpc.ClientConn {
		return rolestest.Connect(t, <-service, chain, tls.VersionTLS13)
	}
}
