package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// build assembles the images of a binary: this test, which is a Go program as well.
func build(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	o := options{version: "v1.2.3", out: out, created: time.Unix(1700000000, 0).UTC(), binaries: map[string]string{"amd64": self, "arm64": self}}
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	if err := checksums(out, filepath.Join(out, "SHA256SUMS")); err != nil {
		t.Fatal(err)
	}
	return out
}

// The same source yields the same bytes.
func TestReproducible(t *testing.T) {
	var sums [2]string
	for i := range sums {
		text, err := os.ReadFile(filepath.Join(build(t), "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") < 6*6 {
		t.Errorf("first\n%s\nthen\n%s", sums[0], sums[1])
	}
}

// SM-70, SM-71, SM-74: what the images are.
func TestImages(t *testing.T) {
	out := build(t)
	layers := map[string][]v1.Hash{}
	for _, name := range names {
		path, err := layout.FromPath(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		index, err := path.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range manifest.Manifests {
			image, err := path.Image(one.Digest)
			if err != nil {
				t.Fatal(err)
			}
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			want := user
			if name == "csi-node-driver-registrar" || name == "livenessprobe" { // NR-10: the node's folders are root's
				want = root
			}
			if config.Config.User != want || !slices.Equal(config.Config.Entrypoint, []string{"/" + name}) || config.Architecture != one.Platform.Architecture {
				t.Errorf("%s for %s: %+v", name, one.Platform.Architecture, config.Config)
			}
			all, err := image.Layers()
			if err != nil || len(all) != 1 {
				t.Fatalf("%s: %d layers, %v", name, len(all), err)
			}
			digest, err := all[0].Digest()
			if err != nil {
				t.Fatal(err)
			}
			layers[one.Platform.Architecture] = append(layers[one.Platform.Architecture], digest)
		}
	}
	for _, arch := range architectures {
		if len(layers[arch]) != len(names) || len(slices.Compact(layers[arch])) != 1 {
			t.Errorf("%s: the layers are %v, want the same one in all images", arch, layers[arch])
		}
	}
}

func TestSBOM(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(build(t), "purser-amd64.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(d.Packages, func(c component) bool { return c.Name == name && c.Version != "" })
	}
	if d.Version != "SPDX-2.3" || !has("github.com/google/go-containerregistry") || !has("std") || len(d.Relationships) != len(d.Packages) {
		t.Errorf("%s with %d packages", d.Version, len(d.Packages))
	}
}
