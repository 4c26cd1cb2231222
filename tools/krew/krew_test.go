package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

var systems = []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64"}

// build packs programs that are only their names.
func build(t *testing.T) string {
	t.Helper()
	binaries, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for _, system := range systems {
		if err := os.WriteFile(filepath.Join(binaries, system), []byte(system), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := release{version: "v1.2.3", out: out, license: filepath.Join("..", "..", "LICENSE"), created: time.Unix(1700000000, 0).UTC(), binaries: binaries}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The same source yields the same bytes.
func TestReproducible(t *testing.T) {
	if first, then := read(t, build(t), "SHA256SUMS"), read(t, build(t), "SHA256SUMS"); !bytes.Equal(first, then) || len(first) == 0 {
		t.Errorf("first\n%s\nthen\n%s", first, then)
	}
}

// What krew asks of a manifest: the fields and forms that its index checks, and that each archive has
// the program and a license.
func TestManifest(t *testing.T) {
	out := build(t)
	var p index.Plugin
	if err := yaml.UnmarshalStrict(read(t, out, "purser.yaml"), &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != constants.CurrentAPIVersion || p.Kind != constants.PluginKind || !regexp.MustCompile(`^[a-z][a-z0-9-]*$`).MatchString(p.Name) {
		t.Errorf("%s %s %q", p.APIVersion, p.Kind, p.Name)
	}
	if !strings.HasPrefix(p.Spec.Version, "v") || p.Spec.Homepage == "" || p.Spec.Description == "" {
		t.Errorf("%+v", p.Spec)
	}
	if short := p.Spec.ShortDescription; short == "" || len(short) > 50 || strings.HasSuffix(short, ".") {
		t.Errorf("short description %q", short)
	}
	var found []string
	for _, platform := range p.Spec.Platforms {
		system := platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"]
		found = append(found, system)
		content := read(t, out, filepath.Base(platform.URI))
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != platform.Sha256 {
			t.Errorf("%s: the checksum is of something else", platform.URI)
		}
		files := unpack(t, platform.URI, content)
		want := 3
		if strings.HasPrefix(system, "windows") {
			want = 2
		} else if !strings.Contains(files["kubectl_complete-purser"], "exec kubectl-purser ") {
			t.Errorf("%s: kubectl finds no completion: %q", platform.URI, files["kubectl_complete-purser"])
		}
		if files[platform.Bin] != system || files["LICENSE"] == "" || len(files) != want {
			t.Errorf("%s has %d files, %s is %q", platform.URI, len(files), platform.Bin, files[platform.Bin])
		}
	}
	if !slices.Equal(found, systems) {
		t.Errorf("platforms %v", found)
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, name string, content []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	keep := func(name string, r io.Reader) {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			keep(f.Name, r)
			_ = r.Close()
		}
		return files
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		keep(header.Name, r)
	}
}
