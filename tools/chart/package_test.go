package main

import (
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// The archive has the version, and the same chart yields the same bytes, whenever its files were written.
func TestPackage(t *testing.T) {
	chart := filepath.Join("..", "..", "deploy", "chart")
	var texts [2]string
	for i := range texts {
		out, source := t.TempDir(), filepath.Join(t.TempDir(), "chart")
		if err := os.CopyFS(source, os.DirFS(chart)); err != nil {
			t.Fatal(err)
		}
		if err := pack([]string{"-version", "v1.2.3-rc.1", "-created", "1700000000", "-out", out, source}); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(out, "purser-1.2.3-rc.1.tgz")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
		c, err := loader.Load(file)
		if err != nil || c.Metadata.Version != "1.2.3-rc.1" || c.Metadata.AppVersion != "v1.2.3-rc.1" {
			t.Errorf("%+v, %v", c.Metadata, err)
		}
	}
	if texts[0] != texts[1] {
		t.Error("the archives differ")
	}
}

// A version that is not semantic, such as the name of a commit, is that of the images alone.
func TestPackageOfACommit(t *testing.T) {
	out := t.TempDir()
	if err := pack([]string{"-version", "bcfe4848", "-out", out, filepath.Join("..", "..", "deploy", "chart")}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(out, "purser-*.tgz"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	c, err := loader.Load(files[0])
	if err != nil || c.Metadata.AppVersion != "bcfe4848" || c.Metadata.Version == "" {
		t.Errorf("%+v, %v", c.Metadata, err)
	}
}
