package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sum is a line of SHA256SUMS.
type sum struct{ digest, name string }

// unsummed are files that SHA256SUMS does not list: itself, and its signatures.
func unsummed(name string) bool { return strings.HasPrefix(name, sumsFile) }

// files returns the names of the files of a release, without the folder of the images.
func files(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// sumOf returns the SHA-256 of a file.
func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:]), err
}

// sumFiles returns the checksums of the files that SHA256SUMS lists.
func sumFiles(folder string) (all []sum, err error) {
	names, err := files(folder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if unsummed(name) {
			continue
		}
		digest, err := sumOf(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		all = append(all, sum{digest, name})
	}
	return all, nil
}

// writeSums writes SHA256SUMS in the format of sha256sum, and its signatures.
func (r *release) writeSums() error {
	all, err := sumFiles(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, s := range all {
		fmt.Fprintf(&text, "%s  %s\n", s.digest, s.name)
	}
	path := filepath.Join(r.out, sumsFile)
	if err := writeFile(path, []byte(text.String())); err != nil {
		return err
	}
	if r.signer == nil {
		return nil
	}
	return r.signer.signFile(path)
}

// readSums returns the lines of SHA256SUMS.
func readSums(folder string) (all []sum, err error) {
	text, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(digest) != hex.EncodedLen(sha256.Size) || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s: %q is no checksum and name of a file", sumsFile, line)
		}
		all = append(all, sum{digest, name})
	}
	return all, nil
}

// checkSums compares the files with SHA256SUMS. A file that it does not list is an error too.
func checkSums(folder string) ([]sum, error) {
	want, err := readSums(folder)
	if err != nil {
		return nil, err
	}
	got, err := sumFiles(folder)
	if err != nil {
		return nil, err
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g sum) bool { return g.name == w.name })
		if i < 0 {
			return nil, fmt.Errorf("%s is missing", w.name)
		}
		if got[i].digest != w.digest {
			return nil, fmt.Errorf("%s has the SHA-256 %s; %s says %s", w.name, got[i].digest, sumsFile, w.digest)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			return nil, fmt.Errorf("%s is not in %s", g.name, sumsFile)
		}
	}
	return got, nil
}
