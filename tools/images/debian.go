package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// pkg is a line of the lock file: a Debian package of an architecture.
type pkg struct{ arch, name, version, path, sum string }

// readLock returns the packages of a lock file.
func readLock(text []byte) (all []pkg, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		const fields = 5
		f := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "#"):
		case len(f) != fields || len(f[4]) != sha256.Size*2:
			return nil, fmt.Errorf("%q: want architecture, package, version, path and SHA-256", lines.Text())
		default:
			all = append(all, pkg{f[0], f[1], f[2], f[3], f[4]})
		}
	}
	return all, nil
}

// entry is a file, a folder or a link of a layer.
type entry struct {
	header  tar.Header
	content []byte
}

// unpack adds what a package installs to the entries, by path, and its control file.
func (p pkg) unpack(folder string, into map[string]entry) error {
	text, err := os.ReadFile(filepath.Join(folder, p.sum+".deb"))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != p.sum {
		return fmt.Errorf("%s: its SHA-256 is %x", p.name, sum)
	}
	members, err := readAr(text)
	if err != nil {
		return err
	}
	for name, member := range members {
		base, compression, _ := strings.Cut(name, ".tar")
		if base != "data" && base != "control" {
			continue
		}
		r, err := decompress(compression, member)
		if err == nil && base == "data" {
			err = addFiles(r, into)
		} else if err == nil {
			err = p.addControl(r, into)
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", name, p.name, err)
		}
	}
	return nil
}

// readAr returns the members of an archive in the format of ar, which a package is.
func readAr(text []byte) (map[string][]byte, error) {
	const magic, headerSize = "!<arch>\n", 60
	if !bytes.HasPrefix(text, []byte(magic)) {
		return nil, errors.New("no Debian package")
	}
	members := map[string][]byte{}
	for rest := text[len(magic):]; len(rest) >= headerSize; {
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || headerSize+size > len(rest) {
			return nil, fmt.Errorf("member of %d bytes: %w", size, errors.Join(err, io.ErrUnexpectedEOF))
		}
		members[strings.TrimRight(string(rest[:16]), " /")] = rest[headerSize : headerSize+size]
		rest = rest[min(headerSize+size+size%2, len(rest)):]
	}
	return members, nil
}

func decompress(compression string, text []byte) (io.Reader, error) {
	switch r := bytes.NewReader(text); compression {
	case ".xz":
		return xz.NewReader(r)
	case ".zst":
		return zstd.NewReader(r)
	case ".gz":
		return gzip.NewReader(r)
	default:
		return r, nil
	}
}

// left are folders of which an image needs nothing; licenses stay.
var left = []string{"usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/bash-completion/", "usr/share/lintian/"}

// addFiles adds the files of a package. Those of /bin, /lib and /sbin go to /usr, where a Debian has them.
func addFiles(r io.Reader, into map[string]entry) error {
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := merged(path.Clean(h.Name))
		if h.Typeflag == tar.TypeDir || isLeft(name) {
			continue // folders come from the files in them
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		const setID = 0o6000 // nothing in the image is to gain rights
		e := entry{content: content, header: tar.Header{
			Name: name, Typeflag: h.Typeflag, Mode: h.Mode &^ setID, Linkname: h.Linkname,
		}}
		if h.Typeflag == tar.TypeLink {
			e.header.Linkname = merged(path.Clean(h.Linkname))
		}
		into[name] = e
	}
}

func merged(name string) string {
	for _, old := range []string{"bin/", "sbin/", "lib/", "lib64/"} {
		if strings.HasPrefix(name, old) {
			return "usr/" + name
		}
	}
	return name
}

func isLeft(name string) bool {
	for _, folder := range left {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return strings.HasPrefix(name, "usr/share/doc/") && !strings.HasSuffix(name, "/copyright")
}

// addControl keeps what scanners of images read: which package has which version.
func (p pkg) addControl(r io.Reader, into map[string]entry) error {
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if path.Clean(h.Name) == "control" {
			text, err := io.ReadAll(files)
			if err != nil {
				return err
			}
			name := "var/lib/dpkg/status.d/" + p.name
			into[name] = entry{content: text, header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}}
		}
	}
}
