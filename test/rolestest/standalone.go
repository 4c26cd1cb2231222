package rolestest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	certutil "k8s.io/client-go/util/cert"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// Parse gives a role the flags of a command line, with one dash or two, and returns what is wrong
// with it.
func Parse(role cli.FlaggedRole, args ...string) error {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	role.AddFlags(f)
	if err := f.Parse(cli.DoubleDashes(args)); err != nil {
		return err
	}
	return role.Validate()
}

// WriteCertificate writes tls.crt and tls.key, a certificate of this machine, to a folder. It
// returns tls.crt.
func WriteCertificate(t *testing.T, dir string) []byte {
	t.Helper()
	chain, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err == nil {
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, "tls.crt"), chain, 0o600),
			os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// Connect returns a connection to a gRPC server of this machine with the certificate. newest is
// the version of TLS that the client has.
func Connect(t *testing.T, server net.Addr, certificate []byte, newest uint16) *grpc.ClientConn {
	t.Helper()
	_, port, err := net.SplitHostPort(server.String())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	conn, err := grpc.NewClient(net.JoinHostPort("127.0.0.1", port), grpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, MaxVersion: newest})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Get returns the code and the body of an answer.
func Get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d %s", answer.StatusCode, text), err
}

// ExpectGet waits until the answer from a URL has a text.
func ExpectGet(t *testing.T, url, want string) {
	t.Helper()
	Eventually(t, url, func() error {
		got, err := Get(t.Context(), url)
		if err == nil && !strings.Contains(got, want) {
			err = fmt.Errorf("%.2000s, want %s", got, want)
		}
		return err
	})
}
