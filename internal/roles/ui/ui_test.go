package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/roles/explain"
)

const dump = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"},
  spec: {storageClassName: nope, accessModes: [ReadWriteOnce]}, status: {phase: Pending}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: other}, provisioner: d.example.com}`

func dumpFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.yaml")
	if err := os.WriteFile(path, []byte(dump), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command until it ends.
func run(ctx context.Context, out io.Writer, args ...string) error {
	for _, c := range New(explain.Streams{In: strings.NewReader(""), Out: out, Err: io.Discard}) {
		if c.Name() == args[0] {
			c.SetArgs(args[1:])
			c.SilenceUsage, c.SilenceErrors = true, true
			return c.ExecuteContext(ctx)
		}
	}
	return nil
}

// ui prints an address that works, serves the pages of a dump, and ends with its context.
func TestUIOfDump(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, write, "ui", "--from", dumpFile(t), "--no-open") }()
	address := make([]byte, 200)
	n, err := read.Read(address)
	if err != nil {
		t.Fatal(err)
	}
	jar := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	first, err := jar.Get(strings.TrimSpace(string(address[:n]))) //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Split(string(address[:n]), "?")[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range first.Cookies() {
		r.AddCookie(cookie)
	}
	answer, err := jar.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || !strings.Contains(string(text), "ClassMissing") {
		t.Errorf("%s: %s", answer.Status, text)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// report writes a file that the user alone may read; with hidden names it has none.
func TestReportOfDump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	if err := run(t.Context(), io.Discard, "report", "--from", dumpFile(t), "-o", path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || !strings.Contains(string(text), "shop") {
		t.Errorf("mode %s, %d bytes", info.Mode(), len(text))
	}
	var hidden bytes.Buffer
	if err := run(t.Context(), &hidden, "report", "--from", dumpFile(t), "--hide-names"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(hidden.String(), "shop") || strings.Contains(hidden.String(), "dump.yaml") ||
		!strings.Contains(hidden.String(), "namespace-1") {
		t.Error("the names are not hidden")
	}
}

// Values that would let others read are refused, with the flag that mends it.
func TestRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"ui --listen 0.0.0.0:8080":                "--authenticate",
		"ui --listen :8080":                       "--authenticate",
		"ui --listen 0.0.0.0:8080 --authenticate": "--tls-cert-file",
		"ui --listen 10.0.0.1:8080 --tls-cert-file a --tls-private-key-file b": "--authenticate",
		"ui --listen 127.0.0.1:0 --authenticate --tls-cert-file a":             "give both",
		"ui --listen 127.0.0.1:0 --tls-cert-file a --tls-private-key-file b":   "--tls-cert-file",
		"ui --listen here":                   "--listen=here",
		"ui --allowed-host x":                "--allowed-host",
		"ui --role-endpoint here":            "--role-endpoint=here",
		"ui --now 2026-01-01T00:00:00Z":      "--from",
		"report --lives -1 --from -":         "--lives=-1",
		"report --hide-names pvc/a --from -": "--hide-names",
		"report --from /nowhere":             "/nowhere",
	} {
		err := run(t.Context(), io.Discard, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %q", args, err, want)
		}
	}
}

// A browser is opened where there is a screen.
func TestBrowser(t *testing.T) {
	none := func(string) string { return "" }
	screen := func(name string) string { return map[string]string{"DISPLAY": ":0"}[name] }
	for _, tc := range []struct {
		system string
		env    func(string) string
		want   string
	}{{"linux", none, ""}, {"linux", screen, "xdg-open"}, {"darwin", none, "open"}, {"windows", none, "rundll32"}} {
		if name, _ := browserOf(tc.system, tc.env); name != tc.want {
			t.Errorf("%s: %q, want %q", tc.system, name, tc.want)
		}
	}
}

// apiServer answers reviews: the token good is that of a user with all permissions, and poor that of
// one who may not list pods.
func apiServer(t *testing.T, asked *int) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			*asked++
			review := &authenticationv1.TokenReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			review.Status.Authenticated = review.Spec.Token == "good" || review.Spec.Token == "poor"
			review.Status.User.Username = review.Spec.Token
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			review := &authorizationv1.SubjectAccessReview{}
			_ = json.NewDecoder(r.Body).Decode(review)
			if of := review.Spec.ResourceAttributes; of.Verb != "list" || of.Namespace != "" || of.Resource == "secrets" {
				t.Errorf("reviewed %+v", of)
			}
			review.Status.Allowed = review.Spec.User == "good" || review.Spec.ResourceAttributes.Resource != "pods"
			answer = review
		default:
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, QPS: -1} // as the commands have it
	config.ContentType = "application/json"
	return config
}

// A user gets the pages with a token of the cluster and the permission to list all that they show.
func TestReviews(t *testing.T) {
	asked := 0
	reviewer, err := newReviewer(apiServer(t, &asked))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	reviewer.now = func() time.Time { return now }
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the board")) })
	plain, secure := reviewer.guard(inner, false), reviewer.guard(inner, true)
	for _, tc := range []struct {
		name, token string
		h           http.Handler
		code        int
		has         string
	}{
		{"no token behind a proxy", "", plain, 401, "a token"},
		{"no token with TLS", "", secure, 401, "<form"},
		{"another token", "bad", plain, 401, "a token"},
		{"too few permissions", "poor", plain, 403, "may not list pods"},
		{"all permissions", "good", plain, 200, "the board"},
		{"all permissions, once more", "good", secure, 200, "the board"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if tc.token != "" {
			r.Header.Set("Authorization", "Bearer "+tc.token)
		}
		w := httptest.NewRecorder()
		tc.h.ServeHTTP(w, r)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.has) {
			t.Errorf("%s: %d %s", tc.name, w.Code, w.Body)
		}
	}
	if asked != 3 {
		t.Errorf("%d tokens were reviewed", asked)
	}
	now = now.Add(2 * reviewedFor)
	if err := reviewer.check(t.Context(), "good"); err != nil || asked != 4 {
		t.Errorf("%v, %d reviews", err, asked)
	}
}

// The login puts the token into a cookie that scripts and other sites cannot read.
func TestLogin(t *testing.T) {
	asked := 0
	reviewer, err := newReviewer(apiServer(t, &asked))
	if err != nil {
		t.Fatal(err)
	}
	h := reviewer.guard(http.NotFoundHandler(), true)
	r := httptest.NewRequest(http.MethodPost, pathLogin, strings.NewReader("token=good"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("%d, cookies %+v", w.Code, cookies)
	}
	again := httptest.NewRequest(http.MethodGet, "/", nil)
	again.AddCookie(cookies[0])
	w = httptest.NewRecorder()
	h.ServeHTTP(w, again)
	if w.Code != http.StatusNotFound { // that of the pages of this test
		t.Errorf("with the cookie: %d", w.Code)
	}
	w = httptest.NewRecorder()
	reviewer.guard(http.NotFoundHandler(), false).ServeHTTP(w, httptest.NewRequest(http.MethodPost, pathLogin, nil))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("a login without TLS: %d", w.Code)
	}
}
