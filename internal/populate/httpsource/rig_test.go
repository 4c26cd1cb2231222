package httpsource

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// origin is a server of one file, with faults.
type origin struct {
	mu       sync.Mutex
	content  []byte
	tag      string
	cut      int  // bytes after which each connection is cut; 0 for never
	plain    bool // without Range, ETag and length
	requests []*http.Request
	changed  []byte // content from the second request on; nil for the same
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, r.Clone(context.Background()))
	if o.changed != nil && len(o.requests) > 1 {
		o.content, o.tag = o.changed, `"two"`
	}
	answer := w
	if o.cut > 0 {
		answer = &cutting{w, o.cut}
	}
	if o.plain {
		w.Header().Set("Content-Length", strconv.Itoa(len(o.content)))
		_, _ = answer.Write(o.content)
		return
	}
	if o.tag != "" {
		w.Header().Set("ETag", o.tag)
	}
	http.ServeContent(answer, r, "", time.Time{}, bytes.NewReader(o.content))
}

// ranges are the Range headers of the requests.
func (o *origin) ranges() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.requests {
		all = append(all, r.Header.Get("Range"))
	}
	return all
}

// cutting cuts the connection after some bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func serveTest(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func noise(n int) []byte {
	content := make([]byte, n)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	return content
}

// sourceAt returns a source that may be on this machine and does not wait between attempts.
func sourceAt(url string) Source {
	return Source{
		URL: url, Format: formatRaw, FileName: "f", AllowLocal: true,
		Pause: func(ctx context.Context, _ int) error { return ctx.Err() },
	}
}

// fill writes to a folder.
func fill(t *testing.T, s Source, folder string) error {
	t.Helper()
	return Write(t.Context(), s, pod.Target{Path: folder}, func(pod.Progress) {})
}

func mustHave(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want %d: %v", filepath.Base(path), len(got), len(want), err)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(path), stateFile)); !os.IsNotExist(err) {
		t.Errorf("the state is left: %v", err)
	}
}

func archiveOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var raw bytes.Buffer
	zipped := gzip.NewWriter(&raw)
	w := tar.NewWriter(zipped)
	for _, entry := range entries {
		content := []byte(nil)
		if entry.Typeflag == tar.TypeReg {
			content = []byte("content of " + entry.Name)
			entry.Size = int64(len(content))
		}
		if err := w.WriteHeader(&entry); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}
