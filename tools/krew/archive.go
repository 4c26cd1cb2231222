package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// archive is one of a system.
type archive struct {
	system, arch string
	file         string // its name
	program      string // the name of the program in it
	sum          string // SHA-256
}

// member is a file in an archive.
type member struct {
	name    string
	content []byte
	mode    int64
}

const (
	runs  = 0o755
	reads = 0o644
)

// completer is the program that kubectl looks for to complete the arguments of the plugin, and
// completes its text, which `kubectl purser completion` prints too. On Windows kubectl looks for no
// program without a suffix.
const (
	completer = "kubectl_complete-purser"
	completes = "#!/bin/sh\nexec kubectl-purser __complete \"$@\"\n"
)

// pack writes the archive of one system: a zip for Windows, a tar.gz for others.
func (r release) pack(system, arch string) (archive, error) {
	a := archive{system: system, arch: arch, program: "kubectl-purser"}
	form, ending := r.tarGz, "tar.gz"
	if system == "windows" {
		a.program += ".exe"
		form, ending = r.zip, "zip"
	}
	a.file = fmt.Sprintf("kubectl-purser_%s_%s_%s.%s", r.version, system, arch, ending)
	program, err := os.ReadFile(filepath.Join(r.binaries, system+"-"+arch))
	if err != nil {
		return a, err
	}
	license, err := os.ReadFile(r.license)
	if err != nil {
		return a, err
	}
	members := []member{{a.program, program, runs}, {"LICENSE", license, reads}}
	if system != "windows" {
		members = append(members, member{completer, []byte(completes), runs})
	}
	content, err := form(members)
	if err != nil {
		return a, fmt.Errorf("%s: %w", a.file, err)
	}
	sum := sha256.Sum256(content)
	a.sum = hex.EncodeToString(sum[:])
	return a, os.WriteFile(filepath.Join(r.out, a.file), content, 0o600)
}

func (r release) tarGz(members []member) ([]byte, error) {
	var b bytes.Buffer
	compressed := gzip.NewWriter(&b)
	w := tar.NewWriter(compressed)
	for _, m := range members {
		header := &tar.Header{
			Name: m.name, Size: int64(len(m.content)), Mode: m.mode,
			Typeflag: tar.TypeReg, ModTime: r.created, Format: tar.FormatUSTAR,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(m.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(w.Close(), compressed.Close())
	return b.Bytes(), err
}

func (r release) zip(members []member) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: r.created}
		header.SetMode(os.FileMode(m.mode)) //nolint:gosec // one of two constants
		file, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(m.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
