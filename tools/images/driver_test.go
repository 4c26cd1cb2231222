package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

var lockFile = filepath.Join("..", "..", "deploy", "driver-packages.lock")

// The lock file has the same packages for both architectures, and names no host.
func TestLock(t *testing.T) {
	text, err := os.ReadFile(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	packages, err := readLock(text)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, p := range packages {
		names[p.arch] = append(names[p.arch], p.name)
		if strings.Contains(p.path, "://") || !strings.HasPrefix(p.path, "debian") {
			t.Errorf("%s comes from %s", p.name, p.path)
		}
	}
	for _, arch := range architectures {
		slices.Sort(names[arch])
	}
	if !slices.Equal(names["amd64"], names["arm64"]) || len(names["amd64"]) < 20 {
		t.Errorf("amd64 %v\narm64 %v", names["amd64"], names["arm64"])
	}
	if _, err := readLock([]byte("amd64 a 1 debian/a.deb short\n")); err == nil {
		t.Error("a line without a sum is read")
	}
}

// debian writes a package with these files, and returns its line of the lock file.
func debian(t *testing.T, folder string, files ...*tar.Header) pkg {
	t.Helper()
	pack := func(headers ...*tar.Header) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, h := range headers {
			content := h.Uname // the content stands in a field that is not used
			h.Uname, h.Size = "", int64(len(content))
			err := w.WriteHeader(h)
			if _, failed := io.WriteString(w, content); errors.Join(err, failed) != nil {
				t.Fatal(err, failed)
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	text := []byte("!<arch>\n")
	for _, m := range []struct {
		name    string
		content []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.gz", pack(&tar.Header{Name: "./control", Typeflag: tar.TypeReg, Uname: "Package: a\n"})},
		{"data.tar.gz", pack(files...)},
	} {
		text = append(text, fmt.Sprintf("%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, 0, 0, 0, 0o644, len(m.content))...)
		text = append(text, m.content...)
		if len(m.content)%2 == 1 {
			text = append(text, '\n')
		}
	}
	sum := sha256.Sum256(text)
	p := pkg{"amd64", "a", "1", "debian/a.deb", hex.EncodeToString(sum[:])}
	if err := os.WriteFile(filepath.Join(folder, p.sum+".deb"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// A package's files go below /usr, its manuals nowhere, and its control file to where scanners look.
func TestUnpack(t *testing.T) {
	folder := t.TempDir()
	p := debian(t, folder,
		&tar.Header{Name: "./bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		&tar.Header{Name: "./bin/a", Typeflag: tar.TypeReg, Mode: 0o4755, Uname: "program"},
		&tar.Header{Name: "./sbin/b", Typeflag: tar.TypeLink, Linkname: "./bin/a"},
		&tar.Header{Name: "./usr/share/man/a.1", Typeflag: tar.TypeReg, Uname: "manual"},
		&tar.Header{Name: "./usr/share/doc/a/copyright", Typeflag: tar.TypeReg, Uname: "license"},
		&tar.Header{Name: "./usr/share/doc/a/news", Typeflag: tar.TypeReg, Uname: "news"},
	)
	files := map[string]entry{}
	if err := p.unpack(folder, files); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name, e := range files {
		got = append(got, fmt.Sprintf("%s %o %s%s", name, e.header.Mode, e.content, e.header.Linkname))
	}
	slices.Sort(got)
	want := []string{
		"usr/bin/a 755 program", "usr/sbin/b 0 usr/bin/a", "usr/share/doc/a/copyright 0 license", "var/lib/dpkg/status.d/a 644 Package: a\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if err := checkPrograms(files, []string{"b"}); err != nil {
		t.Error(err)
	}
	if err := checkPrograms(files, []string{"c"}); err == nil {
		t.Error("a missing program is not missed")
	}
	p.sum = strings.Repeat("0", len(p.sum))
	if err := os.WriteFile(filepath.Join(folder, p.sum+".deb"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.unpack(folder, files); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("another file with the package's name: %v", err)
	}
}

// driverLayout writes the driver's image from the packages in bin/packages.
func driverLayout(t *testing.T) (out string) {
	t.Helper()
	packages := filepath.Join("..", "..", "bin", "packages")
	if _, err := os.Stat(packages); err != nil {
		t.Skip("the packages are not there; run `make driver-image`")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		version: "v1.2.3", out: t.TempDir(), created: time.Unix(1700000000, 0).UTC(), binaries: map[string]string{"amd64": self, "arm64": self},
		lock: lockFile, packages: packages,
	}
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	return o.out
}

// driverFor returns the image of an architecture.
func driverFor(t *testing.T, out, arch string) v1.Image {
	t.Helper()
	path, err := layout.FromPath(filepath.Join(out, driverImage))
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture == arch {
			image, err := path.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatal("no image for " + arch)
	return nil
}

// The same packages yield the same image, and the programs in it run: it makes each filesystem.
func TestDriverImage(t *testing.T) {
	first, second := driverLayout(t), driverLayout(t)
	for _, arch := range architectures {
		a, err := driverFor(t, first, arch).Digest()
		b, failed := driverFor(t, second, arch).Digest()
		if err != nil || failed != nil || a != b {
			t.Errorf("%s: first %s, then %s: %v %v", arch, a, b, err, failed)
		}
	}
	text, err := os.ReadFile(filepath.Join(first, "purser-driver-arm64.spdx.json"))
	if err != nil || !strings.Contains(string(text), "pkg:deb/debian/e2fsprogs@") {
		t.Errorf("the list of the packages: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("running the programs needs root, for chroot")
	}
	root := t.TempDir()
	flat := mutate.Extract(driverFor(t, first, runtime.GOARCH))
	unpack := exec.Command("tar", "-C", root, "-x")
	unpack.Stdin = flat
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// btrfs looks there whether the disk is mounted.
	mounts := filepath.Join(root, "proc", "self", "mounts")
	if err := errors.Join(os.MkdirAll(filepath.Dir(mounts), 0o750), os.WriteFile(mounts, nil, 0o600), os.Symlink("self/mounts", filepath.Join(root, "proc", "mounts"))); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(root, "tmp", "disk")
	for _, line := range []string{
		"mount --version", "losetup --version", "fsfreeze --version",
		"mkfs.ext4 -q /tmp/disk", "e2fsck -fn /tmp/disk", "blkid -p /tmp/disk",
		"mkfs.xfs -q -f /tmp/disk", "xfs_repair -n -f /tmp/disk", "blkid -p /tmp/disk",
		"mkfs.btrfs -q -f /tmp/disk", "btrfs check /tmp/disk", "blkid -p /tmp/disk",
	} {
		if strings.HasPrefix(line, "mkfs") {
			if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 512<<20)); err != nil {
				t.Fatal(err)
			}
		}
		words := strings.Fields(line)
		command := exec.Command("chroot", append([]string{root}, words...)...)
		command.Env = []string{"PATH=/usr/sbin:/usr/bin"}
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}
