package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	testclock "k8s.io/utils/clock/testing"
)

// scriptedReviews is an API server that knows two tokens, and counts what it is asked.
type scriptedReviews struct {
	tokens, accesses int
	fails            error
	denied           bool
}

func (s *scriptedReviews) user(_ context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	s.tokens++
	return authenticationv1.UserInfo{Username: "system:serviceaccount:monitoring:" + token}, token == "prometheus" || token == "stranger", s.fails
}

func (s *scriptedReviews) mayGet(_ context.Context, user authenticationv1.UserInfo, verb, path string) (bool, error) {
	s.accesses++
	return !s.denied && strings.HasSuffix(user.Username, ":prometheus") && verb == "get" && path == "/metrics", s.fails
}

// Metrics and profiles are for callers that the API server accepts; health is for all.
func TestSecurePaths(t *testing.T) {
	reviews := &scriptedReviews{}
	s := NewHTTPServer(HTTPConfig{
		Address: ":0", MetricsPath: "/metrics", Metrics: prometheus.NewRegistry(), Pprof: true,
		Spans: http.NotFoundHandler(), Secure: &Secure{reviews: reviews},
	})
	s.SetComponent("attacher", ComponentCheck(func(context.Context) error { return errors.New("no driver") }))
	for _, tc := range []struct {
		path, authorization string
		fails               error
		code                int
	}{
		{"/healthz", "", nil, 200},
		{"/livez", "", nil, 200},
		{"/readyz", "", nil, 200},
		{"/healthz/attacher", "", nil, 503},
		{"/healthz/unknown", "", nil, 404},
		{"/metrics", "", nil, 401},
		{"/metrics", "Basic cHJvbWV0aGV1cw==", nil, 401},
		{"/metrics", "Bearer ", nil, 401},
		{"/metrics", "Bearer " + strings.Repeat("x", mostTokenBytes+1), nil, 401},
		{"/metrics", "Bearer wrong", nil, 401},
		{"/metrics", "Bearer stranger", nil, 403},
		{"/metrics", "Bearer prometheus", nil, 200},
		{"/metrics", "bearer prometheus", nil, 200},
		{"/debug/pprof/", "", nil, 401},
		{"/debug/pprof/cmdline", "Bearer prometheus", nil, 403},
		{"/debug/pprof/heap", "", nil, 401},
		{"/metrics", "Bearer other", errors.New("connection refused"), 500},
	} {
		reviews.fails = tc.fails
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, http.NoBody)
		if tc.authorization != "" {
			request.Header.Set("Authorization", tc.authorization)
		}
		answer := httptest.NewRecorder()
		s.server.Handler.ServeHTTP(answer, request)
		if answer.Code != tc.code {
			t.Errorf("%s with %.30q: %d, want %d: %s", tc.path, tc.authorization, answer.Code, tc.code, answer.Body)
		}
		if strings.Contains(answer.Body.String(), "wrong") || strings.Contains(answer.Body.String(), "connection refused") {
			t.Errorf("%s: the answer has the token or an internal error: %s", tc.path, answer.Body)
		}
	}
}

// An answer of the API server is used for a while: a minute for a token, five for a permission, and half
// a minute for its lack.
func TestReviewsAreRemembered(t *testing.T) {
	reviews, now := &scriptedReviews{}, testclock.NewFakePassiveClock(time.Now())
	handler := newAccess(reviews, now).only(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	for _, tc := range []struct {
		after            time.Duration
		token            string
		denied           bool
		code             int
		tokens, accesses int
	}{
		{0, "prometheus", false, 200, 1, 1},
		{59 * time.Second, "prometheus", true, 200, 1, 1},
		{2 * time.Second, "prometheus", true, 200, 2, 1},
		{4 * time.Minute, "prometheus", true, 403, 3, 2},
		{29 * time.Second, "prometheus", false, 403, 3, 2},
		{2 * time.Second, "prometheus", false, 200, 3, 3},
		{0, "stranger", false, 403, 4, 4},
		{0, "wrong", false, 401, 5, 4},
		{0, "wrong", false, 401, 6, 4},
	} {
		now.SetTime(now.Now().Add(tc.after))
		reviews.denied = tc.denied
		if code := ask(tc.token); code != tc.code || reviews.tokens != tc.tokens || reviews.accesses != tc.accesses {
			t.Errorf("%s: %d after %d and %d reviews, want %+v", tc.token, code, reviews.tokens, reviews.accesses, tc)
		}
	}
	a := newAccess(reviews, now)
	for i := range mostAnswers + 5 {
		if _, err := a.allows(t.Context(), authenticationv1.UserInfo{Username: fmt.Sprint(i)}, "get", "/"); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.paths) > mostAnswers {
		t.Errorf("%d answers are remembered", len(a.paths))
	}
}

// writePair writes a certificate for a name.
func writePair(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A renewed certificate is used without a restart, and half a pair is not.
func TestCertificateIsReadAgain(t *testing.T) {
	dir, now := t.TempDir(), testclock.NewFakePassiveClock(time.Now())
	files := &certificateFiles{
		chainPath: filepath.Join(dir, "tls.crt"), keyPath: filepath.Join(dir, "tls.key"), clock: now, log: logr.Discard(),
	}
	if _, err := files.get(nil); err == nil {
		t.Error("no error without files")
	}
	name := func() string {
		t.Helper()
		now.SetTime(now.Now().Add(reloadEvery))
		pair, err := files.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	writePair(t, dir, "first")
	if got := name(); got != "first" {
		t.Errorf("the certificate is of %q", got)
	}
	old, err := os.ReadFile(filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	writePair(t, dir, "second")
	renewed, err := os.ReadFile(filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key  []byte
		want string
	}{{old, "first"}, {renewed, "second"}} {
		if err := os.WriteFile(filepath.Join(dir, "tls.key"), step.key, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := name(); got != step.want {
			t.Errorf("the certificate is of %q, want %q", got, step.want)
		}
	}
	os.Remove(filepath.Join(dir, "tls.crt"))
	if got := name(); got != "second" {
		t.Errorf("without the file, the certificate is of %q", got)
	}
}

// HTTPS is served with a self-signed certificate and with files, and plain HTTP is refused.
func TestHTTPSIsServed(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, "files")
	for _, path := range []string{"", dir} {
		s := NewHTTPServer(HTTPConfig{
			Address: "127.0.0.1:0", MetricsPath: "/metrics", Metrics: prometheus.NewRegistry(),
			Secure: &Secure{CertPath: path, reviews: &scriptedReviews{}},
		})
		where, err := s.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // a test
		}}
		for url, code := range map[string]int{"https://" + where.String() + "/healthz": 200, "https://" + where.String() + "/metrics": 401, "http://" + where.String() + "/healthz": 400} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != code {
				t.Errorf("%s: %d, want %d", url, answer.StatusCode, code)
			}
		}
	}
	s := NewHTTPServer(HTTPConfig{Address: "127.0.0.1:0", MetricsPath: "/m", Metrics: prometheus.NewRegistry(), Secure: &Secure{}})
	if _, err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("without an API server: %v", err)
	}
}
