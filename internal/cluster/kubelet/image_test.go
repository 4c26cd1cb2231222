package kubelet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
)

// The index leads to the manifest, and that to the configuration and the layer, each by the digest
// of its content.
func TestImage(t *testing.T) {
	archive, err := Image("purser.local/app:7", []byte("ELF"), "wait", "long")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Image("purser.local/app:7", []byte("ELF"), "wait", "long")
	if err != nil || !bytes.Equal(archive, again) {
		t.Errorf("two images of the same differ, %v", err)
	}
	files := untar(t, archive)
	type entry struct {
		Digest      string
		Size        int
		Annotations map[string]string
	}
	var index struct{ Manifests []entry }
	read(t, files["index.json"], &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != "purser.local/app:7" ||
		index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "7" {
		t.Fatalf("%+v", index)
	}
	blob := func(e entry) []byte {
		t.Helper()
		content := files["blobs/sha256/"+e.Digest[len("sha256:"):]]
		sum := sha256.Sum256(content)
		if e.Digest != "sha256:"+hex.EncodeToString(sum[:]) || e.Size != len(content) {
			t.Errorf("%+v names other content", e)
		}
		return content
	}
	var manifest struct {
		Config entry
		Layers []entry
	}
	read(t, blob(index.Manifests[0]), &manifest)
	var config struct {
		Config struct{ Entrypoint, Cmd []string }
		RootFS struct {
			Layers []string `json:"diff_ids"`
		}
	}
	read(t, blob(manifest.Config), &config)
	if !slices.Equal(config.Config.Entrypoint, []string{"/program"}) || !slices.Equal(config.Config.Cmd, []string{"wait", "long"}) {
		t.Errorf("%+v", config)
	}
	if len(manifest.Layers) != 1 || !slices.Equal(config.RootFS.Layers, []string{manifest.Layers[0].Digest}) {
		t.Errorf("%+v, %+v", manifest, config)
	}
	if got := untar(t, blob(manifest.Layers[0])); string(got["program"]) != "ELF" {
		t.Errorf("%q", got)
	}
}

func untar(t *testing.T, content []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(r)
		}
		if err != nil || header.Mode&0o111 == 0 {
			t.Fatalf("%+v, %v", header, err)
		}
	}
}

func read(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%v: %s", err, content)
	}
}
