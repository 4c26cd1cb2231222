package httpsource

import (
	"archive/tar"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// secretFor writes a Secret for the server, as a kubelet mounts it, with its certificate.
func secretFor(t *testing.T, server *httptest.Server, more map[string]string) string {
	t.Helper()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	more["namespaces"], more["hosts"] = "shop, depot", at.Host
	more["ca.crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for key, value := range more {
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An archive is unpacked; what an attempt before has left is removed, and what was there before is not.
func TestUnpack(t *testing.T) {
	content := archiveOf(t,
		tar.Header{Name: "./a/", Typeflag: tar.TypeDir, Mode: 0o555},
		tar.Header{Name: "./a/b", Typeflag: tar.TypeReg, Mode: 0o4640},
		tar.Header{Name: "c/d", Typeflag: tar.TypeReg, Mode: 0o600},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "a/b"},
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "c/d"},
	)
	s, folder := sourceAt(serveTest(t, &origin{content: content, tag: `"one"`, cut: len(content) / 2})), t.TempDir()
	s.Format, s.SHA256 = formatTarGz, sumOf(nil)
	if err := os.Mkdir(filepath.Join(folder, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := fill(t, s, folder); err == nil || !strings.Contains(err.Error(), "the checksum differs") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.SHA256 = sumOf(content)
	if err := fill(t, s, folder); err != nil {
		t.Fatal(err)
	}
	mustHave(t, filepath.Join(folder, "hard"), []byte("content of c/d"))
	mustHave(t, filepath.Join(folder, "link"), []byte("content of ./a/b"))
	for name, want := range map[string]string{
		"a": "dr-xr-xr-x", "a/b": "-rw-r-----", "c": "drwxr-xr-x", "lost+found": "drwx------",
	} {
		if info, err := os.Lstat(filepath.Join(folder, name)); err != nil || info.Mode().String() != want {
			t.Errorf("%s: %v, %v, want %s", name, info, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(folder, "left")); !os.IsNotExist(err) {
		t.Error("what the attempt before has left is there still")
	}
}

// No entry of an archive leads out of the volume.
func TestHostileArchives(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"a name above":          {{Name: "../x", Typeflag: tar.TypeReg}},
		"a name above, inside":  {{Name: "a/../../x", Typeflag: tar.TypeReg}},
		"an absolute name":      {{Name: filepath.Join(outside, "x"), Typeflag: tar.TypeReg}},
		"through a link":        {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/x", Typeflag: tar.TypeReg}},
		"through a link above":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "l/x", Typeflag: tar.TypeReg}},
		"a folder through one":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/x/", Typeflag: tar.TypeDir}},
		"a hard link above":     {{Name: "h", Typeflag: tar.TypeLink, Linkname: "../x"}},
		"a hard link by a link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l/passwd"}},
		"a device":              {{Name: "d", Typeflag: tar.TypeBlock}},
		"a pipe":                {{Name: "p", Typeflag: tar.TypeFifo}},
		"the state":             {{Name: stateFile, Typeflag: tar.TypeReg}},
		"the next state":        {{Name: stateFile + ".new", Typeflag: tar.TypeReg}},
		"below the next state":  {{Name: stateFile + ".new/x", Typeflag: tar.TypeReg}},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := sourceAt(serveTest(t, &origin{content: archiveOf(t, entries...)})), t.TempDir()
			s.Format = formatTarGz
			if err := fill(t, s, folder); err == nil || !strings.Contains(err.Error(), "the entry ") {
				t.Errorf("no refusal: %v", err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("outside of the volume: %v, %v", left, err)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(folder), "x")); err == nil {
				t.Error("a file above the volume")
			}
		})
	}
}

// What follows the end of an archive is bounded.
func TestPadding(t *testing.T) {
	zeros := make([]byte, 64<<20+1)
	for size, want := range map[int]string{len(zeros): "bytes follow the end of the archive", 1 << 20: ""} {
		s := sourceAt(serveTest(t, &origin{content: append(make([]byte, 1024), zeros[:size]...)}))
		s.Format = "tar"
		err := fill(t, s, t.TempDir())
		if _, isPermanent := errors.AsType[permanentError](err); isPermanent != (want != "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// registry serves one image with a token.
func registry(layer []byte, manifest string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch isAllowed := r.Header.Get("Authorization") == "Bearer t"; {
		case r.URL.Path == "/token":
			if r.Header.Get("Authorization") != "Basic b" || r.URL.Query().Get("scope") != "repository:a/b:pull" {
				w.WriteHeader(http.StatusForbidden)
			}
			fmt.Fprint(w, `{"token":"t"}`)
		case !isAllowed:
			w.Header().Set("Www-Authenticate", fmt.Sprintf(
				`Bearer realm="https://%s/token",service="s",scope="repository:a/b:pull"`, r.Host,
			))
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v2/a/b/manifests/v1", strings.HasPrefix(r.URL.Path, "/v2/a/b/manifests/sha256:"):
			fmt.Fprint(w, manifest)
		case r.URL.Path == "/v2/a/b/blobs/sha256:"+sumOf(layer):
			_, _ = w.Write(layer)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

// The layer of an image is unpacked, with the token that the registry gives for the headers of the Secret.
func TestImage(t *testing.T) {
	layer := archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644})
	one := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s"}`, sumOf(layer))
	mine := `{"digest":"%s","platform":{"os":"linux","architecture":"` + runtime.GOARCH + `"}}`
	for name, tc := range map[string]struct{ manifest, url, want string }{
		"one layer":       {`{"layers":[` + one + `]}`, "a/b:v1", ""},
		"two layers":      {`{"layers":[` + one + `,` + one + `]}`, "a/b:v1", "the image has 2 layers"},
		"another type":    {`{"layers":[{"mediaType":"text/plain","digest":"sha256:` + sumOf(layer) + `"}]}`, "a/b:v1", `of type "text/plain"`},
		"another digest":  {`{"layers":[{"mediaType":"x.tar+gzip","digest":"md5:1"}]}`, "a/b:v1", `the digest "md5:1"`},
		"its digest":      {`{"layers":[` + one + `]}`, "a/b@sha256:" + sumOf([]byte(`{"layers":[`+one+`]}`)), ""},
		"another's":       {`{"layers":[` + one + `]}`, "a/b@sha256:" + sumOf(nil), "with another, whose digest is sha256:"},
		"no digest":       {`{"manifests":[` + fmt.Sprintf(mine, "v1") + `]}`, "a/b:v1", `the digest "v1"`},
		"a long digest":   {`{"manifests":[` + fmt.Sprintf(mine, "sha256:"+sumOf(nil)+"00") + `]}`, "a/b:v1", `00"; sha256 is accepted`},
		"a list's digest": {`{"manifests":[` + fmt.Sprintf(mine, "sha256:"+sumOf(nil)) + `]}`, "a/b:v1", "with another, whose digest is sha256:"},
		"no such tag":     {``, "a/b:v2", "404"},
		"other platforms": {`{"manifests":[{"digest":"sha256:1","platform":{"os":"plan9"}}]}`, "a/b:v1", "no manifest for linux"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(registry(layer, tc.manifest))
			t.Cleanup(server.Close)
			s, folder := sourceAt("oci://"+strings.TrimPrefix(server.URL, "https://")+"/"+tc.url), t.TempDir()
			s.Format, s.Namespace = formatTarGz, "shop"
			s.SecretDir = secretFor(t, server, map[string]string{"header.Authorization": "Basic b"})
			err := fill(t, s, folder)
			if tc.want == "" {
				mustHave(t, filepath.Join(folder, "a"), []byte("content of a"))
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
