package sidecars

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

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
		{"able", []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE}, false, map[string]string{
			"/healthz/snapshot-metadata": "200 ok", "/readyz": "200 [+] snapshot-metadata: ok", "/healthz/livenessprobe": "200 ok",
		}},
		{"unable", nil, false, map[string]string{
			"/healthz/snapshot-metadata": "503", "/readyz": "SNAPSHOT_METADATA_SERVICE", "/healthz/livenessprobe": "200 ok",
		}},
		{"CB-4 without a certificate", nil, true, map[string]string{
			"/healthz/snapshot-metadata": "503", "/readyz": "--tls-cert=", "/healthz/livenessprobe": "200 ok",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			made := &connections{}
			cert := "crt"
			if tc.noCert {
				cert = "none"
			}
			url, service := startMetadata(t, made, tc.plugin, cert)
			for path, want := range tc.want {
				rolestest.Eventually(t, path, func() error {
					got, err := get(t.Context(), url+path)
					if err == nil && !strings.Contains(got, want) {
						err = fmt.Errorf("%.1500s, want %s", got, want)
					}
					return err
				})
			}
			if tc.plugin == nil {
				return
			}
			_, err := backupclient.Collect(t.Context(), service(), backupclient.Request{Namespace: "shop", Snapshot: "monday"})
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
// and a function that connects to the service. cert is the file of the certificate: crt is there.
func startMetadata(
	t *testing.T, made *connections, plugin []csi.PluginCapability_Service_Type, cert string,
) (string, func() *grpc.ClientConn) {
	t.Helper()
	base, err := os.MkdirTemp("", "meta")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	socket := filepath.Join(base, "csi.sock")
	server, err := scripted.Serve(
		context.WithoutCancel(t.Context()), socket, &scripted.Driver{Name: "csi.example.com", Plugin: plugin}, grpc.StatsHandler(made),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	chain, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(base, "crt"), chain, 0o600), os.WriteFile(filepath.Join(base, "key"), key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f)
	if err := errors.Join(f.Parse([]string{
		"--controllers=livenessprobe", "--snapshot-metadata", "--csi-address=" + socket, "--http-endpoint=127.0.0.1:0", "--snapshot-metadata-port=0",
		"--tls-cert=" + filepath.Join(base, cert), "--tls-key=" + filepath.Join(base, "key"),
	}), s.Validate()); err != nil {
		t.Fatal(err)
	}
	where, service := make(chan net.Addr, 1), make(chan net.Addr, 1)
	s.API, s.Log = &rest.Config{Host: "http://127.0.0.1:1"}, (&rolestest.Log{}).Logger()
	s.Listened, s.Metadata.Serving = func(a net.Addr) { where <- a }, func(a net.Addr) { service <- a }
	rolestest.InBackground(t, s.Run)
	return "http://" + (<-where).String(), func() *grpc.ClientConn {
		_, port, err := net.SplitHostPort((<-service).String())
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(chain)
		conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: pool, MinVersion: tls.VersionTLS12,
		})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}
