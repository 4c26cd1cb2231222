package httpsource

import (
	"archive/tar"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// requestLog has the headers Authorization that a server received.
type requestLog struct {
	mu  sync.Mutex
	all []string
}

func (l *requestLog) add(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Header.Get("Authorization"))
}

func (l *requestLog) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// A registry that the Secret does not name is given no token for its headers, whatever realm it names.
func TestRegistryOfAUser(t *testing.T) {
	for name, path := range map[string]string{
		"the realm is allowed": "", "the realm leads to an allowed host": "/redirect",
	} {
		t.Run(name, func(t *testing.T) {
			var tokens, registry requestLog
			allowed := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tokens.add(r)
				fmt.Fprint(w, `{"token":"t"}`)
			}))
			t.Cleanup(allowed.Close)
			evil := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				registry.add(r)
				realm := allowed.URL + "/token"
				if path != "" {
					realm = "https://" + r.Host + path
				}
				if r.URL.Path == "/redirect" {
					http.Redirect(w, r, allowed.URL+"/token", http.StatusFound)
					return
				}
				w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="s"`, realm))
				w.WriteHeader(http.StatusUnauthorized)
			}))
			t.Cleanup(evil.Close)
			s := sourceAt("oci://" + strings.TrimPrefix(evil.URL, "https://") + "/a/b:v1")
			s.Format, s.Namespace = formatTarGz, "shop"
			s.SecretDir = secretFor(t, allowed, map[string]string{"header.Authorization": "Basic b"})
			if err := fill(t, s, t.TempDir()); err == nil {
				t.Error("no error")
			}
			if got := tokens.list(); len(got) == 0 || slices.Contains(got, "Basic b") ||
				slices.Contains(registry.list(), "Basic b") {
				t.Errorf("the host of tokens received %q, the registry %q", got, registry.list())
			}
		})
	}
}

// A token that expires during the download is replaced.
func TestTokenExpires(t *testing.T) {
	entries := []tar.Header{{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644}}
	for i := range 20 { // the first connection is cut after 300 bytes
		entries = append(entries, tar.Header{Name: sumOf([]byte{byte(i)}), Typeflag: tar.TypeReg, Mode: 0o644})
	}
	layer := archiveOf(t, entries...)
	blob := cutOnce{&origin{content: layer, tag: `"one"`}}
	var mu sync.Mutex
	issued, served := 0, 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		isBlob := strings.HasPrefix(r.URL.Path, "/v2/a/b/blobs/")
		switch {
		case r.URL.Path == "/token":
			if r.Header.Get("Authorization") != "Basic b" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			issued++
			fmt.Fprintf(w, `{"token":"t%d"}`, issued)
		case r.Header.Get("Authorization") != fmt.Sprintf("Bearer t%d", issued) || isBlob && issued == 1 && served > 0:
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token"`, r.Host))
			w.WriteHeader(http.StatusUnauthorized)
		case isBlob:
			served++
			blob.ServeHTTP(w, r)
		default:
			fmt.Fprintf(w, `{"layers":[{"mediaType":"x.tar+gzip","digest":"sha256:%s"}]}`, sumOf(layer))
		}
	}))
	t.Cleanup(server.Close)
	s, folder := sourceAt("oci://"+strings.TrimPrefix(server.URL, "https://")+"/a/b:v1"), t.TempDir()
	s.Format, s.Namespace = formatTarGz, "shop"
	s.SecretDir = secretFor(t, server, map[string]string{"header.Authorization": "Basic b"})
	if err := fill(t, s, folder); err != nil {
		t.Fatal(err)
	}
	mustHave(t, filepath.Join(folder, "a"), []byte("content of a"))
	mu.Lock()
	defer mu.Unlock()
	if issued != 2 || served != 2 {
		t.Errorf("%d tokens for %d requests of the layer, want 2 and 2", issued, served)
	}
}
