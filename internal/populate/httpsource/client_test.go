package httpsource

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretOf reads a Secret with the keys, for the namespace shop.
func secretOf(t *testing.T, keys map[string]string) (*secret, error) {
	t.Helper()
	dir := t.TempDir()
	for key, value := range keys {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readSecret(dir, "shop")
}

// An entry of hosts is for https and one port. Only one that says so is for clear text.
func TestHosts(t *testing.T) {
	s, err := secretOf(t, map[string]string{
		"namespaces":     "shop",
		"hosts":          "a.example, b.example:8443 http://c.example\nhttp://d.example:8080,[2001:db8::1]",
		"header.X-Token": "t",
	})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"https://a.example/f": true, "https://a.example:443/f": true, "https://A.example/f": true,
		"https://a.example:8443/f": false, "http://a.example/f": false, "http://a.example:443/f": false,
		"https://x.a.example/f":    false,
		"https://b.example:8443/f": true, "https://b.example/f": false, "http://b.example:8443/f": false,
		"http://c.example/f": true, "http://c.example:80/f": true, "https://c.example/f": false,
		"http://c.example:8080/f": false,
		"http://d.example:8080/f": true, "http://d.example/f": false,
		"https://[2001:db8::1]/f": true, "https://[2001:db8::2]/f": false,
	} {
		request := httptest.NewRequest(http.MethodGet, address, http.NoBody)
		if s.apply(request); (request.Header.Get("X-Token") != "") != want {
			t.Errorf("%s receives the header: %t", address, !want)
		}
	}
}

// A Secret that is missing or wrong says what to do.
func TestSecretProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		keys map[string]string
		want string
	}{
		"none":           {nil, "there is no such Secret in the populator's namespace, or it is empty"},
		"no hosts":       {map[string]string{"namespaces": "shop"}, `no key "hosts"`},
		"a path":         {map[string]string{"namespaces": "shop", "hosts": "https://hidden/f"}, "none of HOST, HOST:PORT"},
		"another scheme": {map[string]string{"namespaces": "shop", "hosts": "oci://hidden"}, "none of HOST, HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := secretOf(t, tc.keys); err == nil || !strings.Contains(err.Error(), tc.want) ||
				strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// The addresses of a machine and of clouds' metadata services are local, in each form.
func TestIsLocal(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "0.0.0.0": true, "169.254.169.254": true, "::ffff:169.254.169.254": true,
		"fe80::1%eth0": true, "fd00:ec2::254": true, "fd00:ec2::254%eth0": true, "fd20:ce::254": true,
		"100.100.100.200": true, "::ffff:100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"192.0.2.1": false, "10.0.0.1": false, "2001:db8::1": false, "fd00:ec2::255": false,
	} {
		if isLocal(netip.MustParseAddr(address)) != want {
			t.Errorf("%s is local: %t", address, !want)
		}
	}
}

// The URL that led to a redirect, whose query may be secret, is not sent on.
func TestNoReferer(t *testing.T) {
	to := &origin{content: noise(10)}
	from := serveTest(t, http.RedirectHandler(serveTest(t, to), http.StatusFound))
	if err := fill(t, sourceAt(from+"/f?token=hidden"), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, r := range to.requests {
		if got := r.Header.Get("Referer"); got != "" {
			t.Errorf("the Referer is %q", got)
		}
	}
}
