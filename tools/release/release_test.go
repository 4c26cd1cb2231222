package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	testVersion = "v1.2.3"
	testCommit  = "0123456789abcdef0123456789abcdef01234567"
)

var license = filepath.Join("..", "..", "LICENSE")

// program compiles a small program once: what is in a release must be a Go program.
var program = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "purser-release-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	source := "package main\n\nfunc main() { println(\"hello\") }\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600),
		os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/hello\n\ngo 1.26\n"), 0o600),
	); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "hello", ".")
	build.Dir, build.Env = folder, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(folder, "hello"))
})

// inputs are the folders that the other targets write.
type inputs struct{ binaries, images, chart, plugin, key string }

func makeInputs(t *testing.T, version string) inputs {
	t.Helper()
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	in := inputs{
		binaries: filepath.Join(folder, "binaries"), images: filepath.Join(folder, "images"),
		plugin: filepath.Join(folder, "plugin"), key: filepath.Join(folder, "cosign"),
		chart: filepath.Join(folder, "purser-"+strings.TrimPrefix(version, "v")+".tgz"),
	}
	for _, arch := range architectures {
		put(t, text, in.binaries, "purser-"+arch)
		bom, err := (&release{version: version}).sbom("packages", text)
		if err != nil {
			t.Fatal(err)
		}
		put(t, bom, in.images, driverImage+"-"+arch+sbomEnding)
	}
	for _, name := range []string{"purser", driverImage} {
		writeImage(t, filepath.Join(in.images, name), version, text)
	}
	packed := tarOf(t, map[string]string{"kubectl-purser": string(text), licenseName: "a license"})
	put(t, packed, in.plugin, "kubectl-purser_"+version+"_darwin_arm64.tar.gz")
	put(t, []byte("apiVersion: krew.googlecontainertools.github.com/v1alpha2\n"), in.plugin, "purser.yaml")
	put(t, []byte("those of the plugin alone\n"), in.plugin, sumsFile)
	chart := fmt.Sprintf("apiVersion: v2\nname: purser\nversion: %s\nappVersion: %s\n", strings.TrimPrefix(version, "v"), version)
	put(t, tarOf(t, map[string]string{"purser/Chart.yaml": chart}), filepath.Dir(in.chart), filepath.Base(in.chart))
	t.Setenv(passwordVariable, "secret")
	command(t, "key", "-out", in.key)
	return in
}

func put(t *testing.T, content []byte, folder, name string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, name), content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range []string{"purser/Chart.yaml", "kubectl-purser", "purser", licenseName} {
		if content, ok := files[name]; ok {
			err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
			if _, failed := io.WriteString(w, content); errors.Join(err, failed) != nil {
				t.Fatal(err, failed)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeImage writes a layout as tools/images does.
func writeImage(t *testing.T, folder, version string, text []byte) {
	t.Helper()
	content := tarOf(t, map[string]string{"purser": string(text)})
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err = mutate.AppendLayers(image, layer)
		if err == nil {
			image, err = mutate.ConfigFile(image, &v1.ConfigFile{
				OS: "linux", Architecture: arch,
				Config: v1.Config{
					Entrypoint: []string{"/" + filepath.Base(folder)},
					Labels:     map[string]string{"org.opencontainers.image.version": version},
				},
				RootFS: rootOf(t, layer),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	if _, err := layout.Write(folder, index); err != nil {
		t.Fatal(err)
	}
}

func rootOf(t *testing.T, layer v1.Layer) v1.RootFS {
	t.Helper()
	id, err := layer.DiffID()
	if err != nil {
		t.Fatal(err)
	}
	return v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{id}}
}

// command runs the program, which must not fail, and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("release %s: %v", args[0], err)
	}
	return out.String()
}

// refused runs the program, which must fail, and returns the error.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	err := run(t.Context(), args, io.Discard)
	if err == nil {
		t.Errorf("release %q does not fail", args)
		return ""
	}
	return err.Error()
}

// args are those that assemble a release.
func (in inputs) args(version, out string, more ...string) []string {
	return append([]string{
		"assemble", "-version", version, "-commit", testCommit, "-created", "1700000000", "-license", license, "-binaries", in.binaries,
		"-images", in.images, "-chart", in.chart, "-plugin", in.plugin, "-out", out,
	}, more...)
}

// assembled makes a signed release.
func assembled(t *testing.T) (in inputs, folder string) {
	t.Helper()
	in, folder = makeInputs(t, testVersion), filepath.Join(t.TempDir(), "release")
	command(t, in.args(testVersion, folder, "-key", in.key+".key")...)
	return in, folder
}

// tree returns the content of each file below a folder.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The same inputs and key yield the same bytes, signatures included.
func TestReproducible(t *testing.T) {
	in, folder := assembled(t)
	again := filepath.Join(t.TempDir(), "again")
	command(t, in.args(testVersion, again, "-key", in.key+".key")...)
	first, then := tree(t, folder), tree(t, again)
	if len(first) != len(then) || len(first) < 30 {
		t.Errorf("%d files, then %d", len(first), len(then))
	}
	for name, text := range first {
		if then[name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

// A release has what docs/releasing.md lists, and its verification names each image.
func TestAssemble(t *testing.T) {
	in, folder := assembled(t)
	for _, name := range []string{
		"purser_v1.2.3_linux_amd64.tar.gz", "purser_v1.2.3_linux_arm64.tar.gz", "purser_v1.2.3_linux_amd64.tar.gz.spdx.json",
		"kubectl-purser_v1.2.3_darwin_arm64.tar.gz", "kubectl-purser_v1.2.3_darwin_arm64.tar.gz.spdx.json", "purser.yaml",
		"purser-driver_v1.2.3_linux_arm64.spdx.json", "purser-1.2.3.tgz", "images.txt", "provenance.intoto.jsonl",
		"SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.sigstore.json", "cosign.pub", "images/oci-layout", "images/index.json",
	} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	out := command(t, "verify", "-from", folder, "-key", in.key+".pub")
	for _, want := range []string{"verified purser:v1.2.3@sha256:", "verified purser-driver:v1.2.3@", "verified charts/purser:1.2.3@", "verified release:v1.2.3@"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// What does not belong together is refused, with the flag, the value and the fix.
func TestRefusals(t *testing.T) {
	in := makeInputs(t, testVersion)
	old := makeInputs(t, "v1.2.2")
	stale := in
	stale.images = old.images
	other := in
	other.binaries = filepath.Join(t.TempDir(), "binaries")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	another, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range architectures {
		put(t, another, other.binaries, "purser-"+arch)
	}
	oldChart := in
	oldChart.chart = old.chart
	oldPlugin := in
	oldPlugin.plugin = old.plugin
	out := filepath.Join(t.TempDir(), "release")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no version":        {in.args("", out), "-version: missing"},
		"build metadata":    {in.args("v1.2.3+x", out), `-version="v1.2.3+x": want a semantic version`},
		"no v":              {in.args("1.2.3", out), `-version="1.2.3": want a semantic version`},
		"uncommitted":       {in.args(testVersion, out, "-dirty"), "has uncommitted changes; commit them, or give a pre-release such as v1.2.3-dev"},
		"commit":            {in.args(testVersion, out, "-commit", "main"), `-commit="main": want the full identifier`},
		"no key file":       {in.args(testVersion, out, "-key", "nowhere"), "-key=nowhere: open nowhere"},
		"folder in use":     {in.args(testVersion, in.binaries), "is not empty; give another folder"},
		"image of another":  {stale.args(testVersion, filepath.Join(out, "a")), `is of version "v1.2.2", want v1.2.3`},
		"other program":     {other.args(testVersion, filepath.Join(out, "b")), "has another program than -binaries="},
		"chart of another":  {oldChart.args(testVersion, filepath.Join(out, "c")), "want purser-1.2.3.tgz"},
		"plugin of another": {oldPlugin.args(testVersion, filepath.Join(out, "d")), "is not of version v1.2.3"},
		"argument":          {in.args(testVersion, out, "more"), "more: is no flag"},
		"no command":        {nil, usage},
		"wrong command":     {[]string{"publish"}, usage},
		"verify what":       {[]string{"verify", "-key", in.key + ".pub"}, "give -from, or -registry and -version"},
		"key exists":        {[]string{"key", "-out", in.key}, "file exists"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refused(t, tc.args...); !strings.Contains(got, tc.want) {
				t.Errorf("%s; want %s", got, tc.want)
			}
		})
	}
	t.Setenv(passwordVariable, "wrong")
	if got := refused(t, in.args(testVersion, out, "-key", in.key+".key")...); !strings.Contains(got, "COSIGN_PASSWORD has another password") {
		t.Error(got)
	}
}

// A tree with uncommitted changes yields pre-releases only, and the provenance says so.
func TestUncommitted(t *testing.T) {
	in, folder := makeInputs(t, "v1.2.3-dev"), filepath.Join(t.TempDir(), "release")
	command(t, in.args("v1.2.3-dev", folder, "-dirty", "-key", in.key+".key")...)
	key, err := readPublicKey(in.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	s, err := verification{key: key}.open([]byte(tree(t, folder)[provenanceFile]))
	if err != nil || !strings.Contains(fmt.Sprint(s.Predicate), "uncommittedChanges:true") {
		t.Errorf("%v %v", s.Predicate, err)
	}
}

// Without a key the release is made and says that it is not signed; it cannot be verified.
func TestUnsigned(t *testing.T) {
	in, folder := makeInputs(t, testVersion), filepath.Join(t.TempDir(), "release")
	if out := command(t, in.args(testVersion, folder)...); !strings.Contains(out, "not signed: no key was given") {
		t.Error(out)
	}
	if got := refused(t, "verify", "-from", folder, "-key", in.key+".pub"); got != "SHA256SUMS is not signed" {
		t.Error(got)
	}
}
