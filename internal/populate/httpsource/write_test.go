package httpsource

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// A file is written, its progress said, and no state left.
func TestWriteFile(t *testing.T) {
	content := noise(3 << 20)
	o := &origin{content: content, tag: `"one"`}
	s, folder := sourceAt(serveTest(t, o)), t.TempDir()
	s.SHA256 = sumOf(content)
	var last pod.Progress
	err := Write(t.Context(), s, pod.Target{Path: folder}, func(p pod.Progress) { last = p })
	if want := int64(len(content)); err != nil || last != (pod.Progress{Done: want, Total: want}) {
		t.Errorf("%v; progress %+v", err, last)
	}
	mustHave(t, filepath.Join(folder, "f"), content)
}

// Each connection is cut, and the next continues where it was.
func TestResumesConnections(t *testing.T) {
	content := noise(1000)
	for name, o := range map[string]*origin{
		"with an ETag":    {content: content, tag: `"one"`, cut: 300},
		"without a mark":  {content: content, cut: 300},
		"of a short file": {content: content[:10], tag: `"one"`, cut: 5},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := sourceAt(serveTest(t, o)), t.TempDir()
			s.SHA256 = sumOf(o.content)
			if err := fill(t, s, folder); err != nil {
				t.Fatal(err)
			}
			mustHave(t, filepath.Join(folder, "f"), o.content)
			for i, got := range o.ranges() {
				if (got == "") != (i == 0) {
					t.Errorf("request %d has Range %q", i, got)
				}
			}
		})
	}
}

// cutOnce cuts the first connection of an origin only.
type cutOnce struct{ *origin }

func (c cutOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.cut = 0
	if len(c.requests) == 0 {
		c.cut = 300
	}
	c.mu.Unlock()
	c.origin.ServeHTTP(w, r)
}

// A server without Range sends the whole file again, of which the first part is skipped. Without a checksum
// nothing says that the file is the same, so it is written anew.
func TestServerWithoutRange(t *testing.T) {
	for _, sum := range []bool{true, false} {
		content := noise(1000)
		s, folder := sourceAt(serveTest(t, cutOnce{&origin{content: content, plain: true}})), t.TempDir()
		if sum {
			s.SHA256 = sumOf(content)
		}
		if err := fill(t, s, folder); err != nil {
			t.Fatal(err)
		}
		mustHave(t, filepath.Join(folder, "f"), content)
	}
}

// A file that changes between two connections is written anew.
func TestChangedFile(t *testing.T) {
	changed := noise(700)[100:]
	o := &origin{content: noise(1000), tag: `"one"`, changed: changed}
	s, folder := sourceAt(serveTest(t, cutOnce{o})), t.TempDir()
	if err := fill(t, s, folder); err != nil {
		t.Fatal(err)
	}
	mustHave(t, filepath.Join(folder, "f"), changed)
}

// A pod that is killed leaves the state, and the next one continues the file.
func TestResumesAfterRestart(t *testing.T) {
	content := noise(1000)
	o := &origin{content: content, tag: `"one"`, cut: 300}
	url, folder := serveTest(t, o), t.TempDir()
	s := sourceAt(url)
	s.SHA256 = sumOf(content)
	s.Pause = func(context.Context, int) error { return errors.New("killed") }
	if err := fill(t, s, folder); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(filepath.Join(folder, stateFile)); err != nil {
		t.Fatal(err)
	}
	s.Pause = sourceAt(url).Pause
	var said []pod.Progress
	err := Write(t.Context(), s, pod.Target{Path: folder}, func(p pod.Progress) { said = append(said, p) })
	if err != nil {
		t.Fatal(err)
	}
	if want := (pod.Progress{Done: 300, Total: 1000, Again: 300}); said[0] != want {
		t.Errorf("the second pod says %+v first, want %+v", said[0], want)
	}
	mustHave(t, filepath.Join(folder, "f"), content)
	if got := o.ranges(); got[1] != "bytes=300-" {
		t.Errorf("the second pod asked for %q", got)
	}
	other := sourceAt(serveTest(t, &origin{content: noise(10)}))
	if err := fill(t, other, folder); err != nil {
		t.Fatal(err)
	}
	mustHave(t, filepath.Join(folder, "f"), noise(10)) // shorter than what was there
}

// Errors say the field, its value and what to do.
func TestErrors(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	content := noise(100)
	for name, tc := range map[string]struct {
		handler http.Handler
		change  func(*Source)
		limit   int64
		want    string
	}{
		"not found":   {status(404), nil, 0, "check that the URL is right"},
		"forbidden":   {status(403), nil, 0, "spec.headersSecret"},
		"a teapot":    {status(418), nil, 0, "418"},
		"unavailable": {status(503), nil, 0, "6 attempts in a row"},
		"a wrong checksum": {
			&origin{content: content}, func(s *Source) { s.SHA256 = sumOf(nil) }, 0,
			"spec.sha256 is " + sumOf(nil) + ", and the file has " + sumOf(content),
		},
		"too large": {&origin{content: content}, nil, 99, "the file has 100 bytes or more, and the volume 99"},
		"a redirect loop": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		}), nil, 0, "more than 5 redirects"},
		"a redirect to a file": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		}), nil, 0, "file"},
		"a local address": {&origin{content: content}, func(s *Source) { s.AllowLocal = false }, 0, "--allow-local-addresses"},
		"no archive":      {&origin{content: content}, func(s *Source) { s.Format = formatTarGz }, 0, "is spec.format right?"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sourceAt(serveTest(t, tc.handler) + "/f?token=hidden")
			if tc.change != nil {
				tc.change(&s)
			}
			err := Write(t.Context(), s, pod.Target{Path: t.TempDir(), Size: tc.limit}, func(pod.Progress) {})
			if err == nil || !strings.Contains(err.Error(), tc.want) ||
				!strings.Contains(err.Error(), "spec.url \"http://127.0.0.1") {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Errorf("the query is in the error: %v", err)
			}
		})
	}
}

// A redirect from https to http is refused.
func TestDowngrade(t *testing.T) {
	plain := serveTest(t, &origin{content: noise(10)})
	safe := httptest.NewTLSServer(http.RedirectHandler(plain, http.StatusFound))
	t.Cleanup(safe.Close)
	s := sourceAt(safe.URL)
	s.SecretDir, s.Namespace = secretFor(t, safe, map[string]string{}), "shop"
	if err := fill(t, s, t.TempDir()); err == nil || !strings.Contains(err.Error(), "from https to http") {
		t.Error(err)
	}
}

// A device is written from its begin, and its size is the limit.
func TestDevice(t *testing.T) {
	content := noise(1000)
	o := &origin{content: content, tag: `"one"`, cut: 300}
	s, device := sourceAt(serveTest(t, o)), filepath.Join(t.TempDir(), "device")
	s.SHA256 = sumOf(content)
	for size, want := range map[int]string{2000: "", 999: "the volume 999"} {
		if err := os.WriteFile(device, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Write(t.Context(), s, pod.Target{Path: device, Block: true, Size: 1}, func(pod.Progress) {})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if got, err := os.ReadFile(device); err != nil || want == "" && string(got[:1000]) != string(content) ||
			len(got) != size {
			t.Errorf("%d bytes: the device has other content, %v", size, err)
		}
	}
}

// The headers of a Secret go to its hosts alone, for the namespaces that it names, and are in no error.
func TestSecretHeaders(t *testing.T) {
	elsewhere := &origin{content: noise(10)}
	other := strings.Replace(serveTest(t, elsewhere), "127.0.0.1", "localhost", 1)
	var seen []string
	own := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("X-Token")) // one request at a time
		if r.Header.Get("X-Token") != "hidden" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write(noise(20))
	}))
	t.Cleanup(own.Close)
	s := sourceAt(own.URL)
	s.SecretDir = secretFor(t, own, map[string]string{"header.X-Token": "hidden\n"})
	s.Namespace = "elsewhere"
	err := fill(t, s, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `does not have the namespace "elsewhere"`) ||
		strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
	s.Namespace = "shop"
	if err := fill(t, s, t.TempDir()); err != nil || len(seen) != 1 {
		t.Errorf("%v, %d requests", err, len(seen))
	}
	from := serveTest(t, http.RedirectHandler(other, http.StatusFound))
	s.URL = from
	if err := fill(t, s, t.TempDir()); err != nil {
		t.Error(err)
	}
	for _, r := range elsewhere.requests {
		if r.Header.Get("X-Token") != "" {
			t.Error("the header was sent to a host that the Secret does not name")
		}
	}
}

// Of a source, the pod gets what its fields say; a field that is refused is named.
func TestShown(t *testing.T) {
	if got := Shown("https://user:hidden@h/p?q=hidden#x"); got != "https://h/p" {
		t.Error(got)
	}
}
