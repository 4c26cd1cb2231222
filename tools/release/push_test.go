package main

import (
	"bufio"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// serving starts a registry on loopback, and returns its address with a path.
func serving(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/purser"
}

func quiet() registry.Option { return registry.Logger(log.New(io.Discard, "", 0)) }

// What is pushed can be pulled by digest and verified from the registry alone. A second push sends
// nothing new.
func TestPush(t *testing.T) {
	in, folder := assembled(t)
	at := serving(t, registry.New(quiet()))
	pushed := command(t, "push", "-from", folder, "-registry", at)
	if again := command(t, "push", "-from", folder, "-registry", at); again != pushed {
		t.Errorf("first\n%s\nthen\n%s", pushed, again)
	}
	list, err := readImageList(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		ref, err := name.NewDigest(at + "/" + i.repository + "@" + i.digest.String())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(pushed, at+"/"+i.String()) {
			t.Errorf("%s is not in\n%s", i, pushed)
		}
		if i.repository == chartRepository {
			continue
		}
		index, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", i, err)
		}
	}
	out := command(t, "verify", "-registry", at, "-version", testVersion, "-key", in.key+".pub")
	if strings.Count(out, "verified ") != len(list)+1 {
		t.Error(out)
	}
}

// The chart is stored as Helm stores charts: one layer with the archive, and Chart.yaml as the config.
func TestPushedChart(t *testing.T) {
	_, folder := assembled(t)
	at := serving(t, registry.New(quiet()))
	command(t, "push", "-from", folder, "-registry", at)
	ref, err := name.ParseReference(at + "/charts/purser:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	m, err := chart.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	config, err := chart.RawConfigFile()
	if err != nil || len(m.Layers) != 1 || m.Config.MediaType != chartConfig || m.Layers[0].MediaType != chartContent {
		t.Fatalf("%+v: %v", m, err)
	}
	text, err := content(chart, m.Layers[0])
	if err != nil || string(text) != tree(t, folder)["purser-1.2.3.tgz"] || !strings.Contains(string(config), `"appVersion":"v1.2.3"`) {
		t.Errorf("%s: %v", config, err)
	}
}

// The registry to try a release with takes one and gives it back; it does not listen for other machines.
func TestServe(t *testing.T) {
	in, folder := assembled(t)
	r, w := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- run(ctx, []string{"serve"}, w) }()
	address, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimSpace(address) + "/purser"
	command(t, "push", "-from", folder, "-registry", at)
	command(t, "verify", "-registry", at, "-version", testVersion, "-key", in.key+".pub")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := refused(t, "serve", "-address", "0.0.0.0:5000"); !strings.Contains(got, "want a loopback address") {
		t.Error(got)
	}
}

// A tag of another release is not replaced, and nothing is sent before that is known.
func TestPushReplacesNothing(t *testing.T) {
	in, folder := assembled(t)
	at := serving(t, registry.New(quiet()))
	command(t, "push", "-from", folder, "-registry", at)
	other := filepath.Join(t.TempDir(), "release")
	args := in.args(testVersion, other, "-key", in.key+".key", "-builder", "https://example.com")
	command(t, args...)
	if got := refused(t, "push", "-from", other, "-registry", at); !strings.Contains(got, "a release is not replaced") {
		t.Error(got)
	}
	command(t, "verify", "-registry", at, "-version", testVersion, "-key", in.key+".pub")
}

// An older release under the tag of the one that was asked for is refused, signed as it is.
func TestVerifyRefusesAnotherVersion(t *testing.T) {
	in, folder := assembled(t)
	at := serving(t, registry.New(quiet()))
	command(t, "push", "-from", folder, "-registry", at)
	s, err := readLayout(filepath.Join(folder, layoutFolder))
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.get(filesRepository, testVersion)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(at + "/release:v9.9.9")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, e.image); err != nil {
		t.Fatal(err)
	}
	got := refused(t, "verify", "-registry", at, "-version", "v9.9.9", "-key", in.key+".pub")
	if !strings.Contains(got, "has the release v1.2.3 under the tag v9.9.9") {
		t.Error(got)
	}
}

// flipped changes one byte of each blob or manifest that has the digest.
type flipped struct {
	http.Handler
	digest v1.Hash
}

func (f flipped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, f.digest.String()) {
		f.Handler.ServeHTTP(w, r)
		return
	}
	recorded := httptest.NewRecorder()
	f.Handler.ServeHTTP(recorded, r)
	body := recorded.Body.Bytes()
	body[len(body)/2] ^= 1
	maps.Copy(w.Header(), recorded.Header())
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(body)
}

// One byte that a registry changes in anything of a release fails its verification.
func TestOneByteOfTheRegistry(t *testing.T) {
	in, folder := assembled(t)
	handler := registry.New(quiet())
	command(t, "push", "-from", folder, "-registry", serving(t, handler))
	changed := 0
	for path := range tree(t, filepath.Join(folder, layoutFolder)) {
		hex, is := strings.CutPrefix(filepath.ToSlash(path), "blobs/sha256/")
		if !is {
			continue
		}
		changed++
		at := serving(t, flipped{handler, v1.Hash{Algorithm: "sha256", Hex: hex}})
		err := run(t.Context(), []string{"verify", "-registry", at, "-version", testVersion, "-key", in.key + ".pub"}, io.Discard)
		if err == nil {
			t.Errorf("%s: a changed byte is not noticed", path)
		}
	}
	if changed < 30 {
		t.Errorf("only %d blobs", changed)
	}
}
