package explain

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The token goes to https addresses alone, whose certificate is checked but on the loopback address without
// authorities of its own.
func TestEndpoints(t *testing.T) {
	var given atomic.Value
	answer := http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { given.Store(r.Header.Get("Authorization")) },
	)
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	moved := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(moved.Close)
	dir := t.TempDir()
	token, own, other := filepath.Join(dir, "token"), filepath.Join(dir, "ca"), filepath.Join(dir, "other")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	for path, text := range map[string]string{token: "s3cret\n", own: string(block), other: "nothing"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		of   Endpoints
		want string
		err  string
	}{
		"a port-forward":         {Endpoints{[]string{secure.URL}, token, ""}, "Bearer s3cret", ""},
		"its authority":          {Endpoints{[]string{secure.URL}, token, own}, "Bearer s3cret", ""},
		"no token":               {Endpoints{[]string{secure.URL}, "", ""}, "", ""},
		"http beside https":      {Endpoints{[]string{plain.URL, secure.URL}, token, ""}, "", ""},
		"a redirect to http":     {Endpoints{[]string{moved.URL}, token, ""}, "not asked", ""},
		"http alone":             {Endpoints{[]string{plain.URL}, token, ""}, "", "--role-token-file"},
		"no authority in it":     {Endpoints{[]string{secure.URL}, "", other}, "", "--role-ca-file"},
		"a token that is absent": {Endpoints{[]string{secure.URL}, filepath.Join(token, "x"), ""}, "", "--role-token-file"},
		"no address":             {Endpoints{[]string{"here"}, "", ""}, "", "--role-endpoint=here"},
	} {
		err := tc.of.Validate()
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, without %q", name, err, tc.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		given.Store("not asked")
		client, err := tc.of.Client(tc.of.URLs[0])
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(tc.of.URLs[0]) //nolint:noctx // of a test
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		response.Body.Close()
		if given.Load() != tc.want {
			t.Errorf("%s: got %q, want %q", name, given.Load(), tc.want)
		}
	}
	if isLoopback("role.example.com") || isLoopback("10.0.0.1") || !isLoopback("127.0.0.1") || !isLoopback("::1") {
		t.Error("certificates of other machines are not checked")
	}
}

// A role that is reached by a port-forward keeps its certificate: another program at the port gets no token.
func TestCertificateIsPinned(t *testing.T) {
	accept := pinned()
	with := func(raw string) tls.ConnectionState {
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(raw)}}}
	}
	for _, again := range []string{"first", "first"} {
		if err := accept(with(again)); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	}
	if err := accept(with("second")); err == nil {
		t.Error("another certificate is accepted")
	}
}
