package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const project = "https://github.com/purser-csi/purser"

// architectures are those of the nodes.
var architectures = []string{"amd64", "arm64"}

// Names of files of a release.
const (
	sumsFile       = "SHA256SUMS"
	imagesFile     = "images.txt"
	provenanceFile = "provenance.intoto.jsonl"
	publicFile     = "cosign.pub"
	layoutFolder   = "images"
	sbomEnding     = ".spdx.json"
)

// release is what is made, and from what.
type release struct {
	version, commit, builder string
	dirty                    bool
	created                  time.Time
	binaries, images         string // folders
	chart, license           string // files
	plugin                   string // folder
	out                      string
	signer                   *signer // nil: nothing is signed
	goVersion                string  // that the programs were built with, as they say
}

// write writes the files first, then what is derived from them: the provenance has their checksums,
// SHA256SUMS has the provenance's, and the layout has all of them.
func (r *release) write() error {
	for _, step := range []func() error{r.writePrograms, r.copyPlugin, r.copyChart, r.writeSBOMs} {
		if err := step(); err != nil {
			return err
		}
	}
	l, err := newLayout(filepath.Join(r.out, layoutFolder))
	if err != nil {
		return err
	}
	images, err := r.addImages(l)
	if err != nil {
		return err
	}
	if err := r.writeImageList(images); err != nil {
		return err
	}
	envelope, err := r.writeProvenance(images)
	if err != nil {
		return err
	}
	if r.signer != nil {
		if err := writeFile(filepath.Join(r.out, publicFile), r.signer.public); err != nil {
			return err
		}
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	files, err := r.addFiles(l)
	if err != nil {
		return err
	}
	return r.signImages(l, append(images, files), envelope)
}

// writePrograms packs the program of each architecture with the license.
func (r *release) writePrograms() error {
	license, err := os.ReadFile(r.license)
	if err != nil {
		return err
	}
	for _, arch := range architectures {
		program, err := os.ReadFile(filepath.Join(r.binaries, "purser-"+arch))
		if err != nil {
			return err
		}
		content, err := r.tarGz(map[string][]byte{"purser": program, licenseName: license}, "purser", licenseName)
		if err == nil {
			err = writeFile(filepath.Join(r.out, r.programArchive(arch)), content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *release) programArchive(arch string) string {
	return fmt.Sprintf("purser_%s_linux_%s.tar.gz", r.version, arch)
}

// tarGz packs the files of the names in this order; the first is a program.
func (r *release) tarGz(files map[string][]byte, names ...string) ([]byte, error) {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for i, name := range names {
		h := &tar.Header{
			Name: name, Size: int64(len(files[name])), Mode: 0o644,
			Typeflag: tar.TypeReg, ModTime: r.created, Format: tar.FormatUSTAR,
		}
		if i == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), compressed.Close())
	return b.Bytes(), err
}

// copyPlugin copies the archives of the plugin and the manifest for krew; SHA256SUMS is of the release.
func (r *release) copyPlugin() error {
	entries, err := os.ReadDir(r.plugin)
	if err != nil {
		return err
	}
	found := 0
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || name == sumsFile {
			continue
		}
		if isArchive(name) {
			found++
			if !strings.HasPrefix(name, "kubectl-purser_"+r.version+"_") {
				return fmt.Errorf("-plugin=%s: %s is not of version %s", r.plugin, name, r.version)
			}
		}
		if err := r.copy(filepath.Join(r.plugin, name), name); err != nil {
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("-plugin=%s: has no archive; make kubectl-plugin writes them", r.plugin)
	}
	return nil
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip")
}

// copyChart copies the chart, whose name has the version of the release.
func (r *release) copyChart() error {
	if want := r.chartFile(); filepath.Base(r.chart) != want {
		return fmt.Errorf("-chart=%s: want %s, the chart of this version", r.chart, want)
	}
	return r.copy(r.chart, r.chartFile())
}

// chartFile is the name of the chart's archive: Helm's versions have no v.
func (r *release) chartFile() string { return "purser-" + strings.TrimPrefix(r.version, "v") + ".tgz" }

func (r *release) copy(from, name string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, name), content)
}

// report lists what was made.
func (r *release) report(out io.Writer) error {
	sums, err := readSums(r.out)
	if err != nil {
		return err
	}
	for _, s := range sums {
		fmt.Fprintf(out, "%s  %s\n", s.digest, s.name)
	}
	if r.signer == nil {
		fmt.Fprintln(out, "not signed: no key was given")
	}
	return nil
}
