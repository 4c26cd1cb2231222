package pki

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var (
	start  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server = Spec{Name: "server", User: "server", Hosts: []string{"127.0.0.1", "localhost", "10.0.0.1"}}
	client = Spec{Name: "admin", User: "admin", Group: "system:masters"}
)

func TestCertificatesVerify(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir, start)
	tests := map[string]struct {
		spec Spec
		opts x509.VerifyOptions
		ok   bool
	}{
		"server by IP":              {server, x509.VerifyOptions{DNSName: "10.0.0.1"}, true},
		"server by name":            {server, x509.VerifyOptions{DNSName: "localhost"}, true},
		"server elsewhere":          {server, x509.VerifyOptions{DNSName: "example.org"}, false},
		"server as a client (etcd)": {server, usage(x509.ExtKeyUsageClientAuth), true},
		"client":                    {client, usage(x509.ExtKeyUsageClientAuth), true},
		"client cannot serve":       {client, usage(x509.ExtKeyUsageServerAuth), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.opts.Roots, test.opts.CurrentTime = x509.NewCertPool(), start
			test.opts.Roots.AddCert(read(t, a.Cert()))
			_, err := issue(t, a, test.spec).Verify(test.opts)
			if (err == nil) != test.ok {
				t.Errorf("verify: %v, want ok %v", err, test.ok)
			}
		})
	}
	if got := issue(t, a, client).Subject.String(); got != "CN=admin,O=system:masters" {
		t.Errorf("subject = %s", got)
	}
}

// TestKeptOrIssuedAgain: each row changes the folder or the clock between two runs.
func TestKeptOrIssuedAgain(t *testing.T) {
	day := 24 * time.Hour
	tests := map[string]struct {
		later   time.Duration
		spec    Spec
		damage  string
		newRoot bool
		newLeaf bool
	}{
		"a restart":                {later: day, spec: server},
		"clock a little back":      {later: -time.Minute, spec: server},
		"clock a day back":         {later: -day, spec: server, newRoot: true, newLeaf: true},
		"leaf near its end":        {later: 340 * day, spec: server, newLeaf: true},
		"authority near its end":   {later: 9 * 365 * day, spec: server, newRoot: true, newLeaf: true},
		"other hosts":              {spec: Spec{Name: "server", User: "server", Hosts: []string{"127.0.0.2"}}, newLeaf: true},
		"other user":               {spec: Spec{Name: "server", User: "else", Hosts: server.Hosts}, newLeaf: true},
		"leaf damaged":             {spec: server, damage: "server.crt", newLeaf: true},
		"leaf's key damaged":       {spec: server, damage: "server.key", newLeaf: true},
		"authority damaged":        {spec: server, damage: "ca.crt", newRoot: true, newLeaf: true},
		"authority's key damaged":  {spec: server, damage: "ca.key", newRoot: true, newLeaf: true},
		"something else is broken": {spec: server, damage: "unrelated"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := open(t, dir, start)
			root, leaf := read(t, a.Cert()), issue(t, a, server)
			if test.damage != "" {
				overwrite(t, filepath.Join(dir, test.damage))
			}
			b := open(t, dir, start.Add(test.later))
			if got := !root.Equal(read(t, b.Cert())); got != test.newRoot {
				t.Errorf("new authority: %v, want %v", got, test.newRoot)
			}
			again := issue(t, b, test.spec)
			if got := !leaf.Equal(again); got != test.newLeaf {
				t.Errorf("new certificate: %v, want %v", got, test.newLeaf)
			}
			if err := again.CheckSignatureFrom(read(t, b.Cert())); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSigningKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	first := signingKey(t, open(t, dir, start))
	if again := signingKey(t, open(t, dir, start)); again != first {
		t.Error("the key changed: every token would be void after a restart")
	}
	overwrite(t, filepath.Join(dir, "tokens.key"))
	if again := signingKey(t, open(t, dir, start)); again == first || len(again) < 100 {
		t.Errorf("a damaged key was not replaced: %q", again)
	}
}

func TestEverythingIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir, start)
	issue(t, a, server)
	signingKey(t, a)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 {
		t.Errorf("files: %v, want three keys, two certificates and nothing temporary", files)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v %v", info.Mode(), err)
	}
}

func usage(u x509.ExtKeyUsage) x509.VerifyOptions {
	return x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{u}}
}

func open(t *testing.T, dir string, now time.Time) *Authority {
	t.Helper()
	a, err := Open(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, spec Spec) *x509.Certificate {
	t.Helper()
	pair, err := a.Issue(spec)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, pair.Cert)
}

func signingKey(t *testing.T, a *Authority) string {
	t.Helper()
	path, err := a.SigningKey("tokens")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func read(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func overwrite(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
}
