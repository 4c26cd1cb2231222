package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// document is what of SPDX 2.3 is used.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []component    `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type component struct {
	Name     string      `json:"name"`
	ID       string      `json:"SPDXID"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Checksum []checksum  `json:"checksums,omitempty"`
	Refs     []reference `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// writeSBOM lists the modules that are linked into a binary, as the Go linker noted them.
func (o options) writeSBOM(arch string, binary []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("SBOM of %s: %w", arch, err)
	}
	sum := sha256.Sum256(binary)
	digest := hex.EncodeToString(sum[:])
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "purser-" + arch,
		Namespace: "https://github.com/purser-csi/purser/sbom/" + digest,
		Creation:  creation{Created: o.created.Format(time.RFC3339), Creators: []string{"Tool: purser tools/images"}},
	}
	d.add("SPDXRef-DOCUMENT", "DESCRIBES", component{
		Name: info.Main.Path, Version: o.version, Checksum: []checksum{{"SHA256", digest}},
	})
	root := d.Packages[0].ID
	d.add(root, "CONTAINS", component{Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		d.add(root, "CONTAINS", component{Name: module.Path, Version: module.Version})
	}
	return d.write(o.out)
}

// writePackagesSBOM lists the Debian packages of the driver's image; the binary has a list of its own.
func (o options) writePackagesSBOM(arch string, packages []pkg) error {
	all := sha256.New()
	for _, p := range packages {
		fmt.Fprintln(all, p.arch, p.sum)
	}
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: driverImage + "-" + arch,
		Namespace: "https://github.com/purser-csi/purser/sbom/" + hex.EncodeToString(all.Sum(nil)),
		Creation:  creation{Created: o.created.Format(time.RFC3339), Creators: []string{"Tool: purser tools/images"}},
	}
	for _, p := range packages {
		if p.arch == arch {
			d.add("SPDXRef-DOCUMENT", "DESCRIBES", component{
				Name: p.name, Version: p.version, Checksum: []checksum{{"SHA256", p.sum}},
				Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:deb/debian/" + p.name + "@" + p.version + "?arch=" + arch}},
			})
		}
	}
	return d.write(o.out)
}

// write writes the document beside the images.
func (d *document) write(out string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, d.Name+".spdx.json"), append(text, '\n'), 0o644) //nolint:gosec // readable by all users
}

func (d *document) add(from, kind string, c component) {
	c.ID = fmt.Sprintf("SPDXRef-%d", len(d.Packages))
	c.Location = "NOASSERTION"
	if c.Refs == nil {
		c.Refs = []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + c.Name + "@" + c.Version}}
	}
	d.Packages = append(d.Packages, c)
	d.Relationships = append(d.Relationships, relationship{from, kind, c.ID})
}

// checksums writes the SHA-256 of every file of a folder, in the format of sha256sum.
func checksums(dir, file string) error {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sum := sha256.Sum256(content)
		lines = append(lines, hex.EncodeToString(sum[:])+"  "+name+"\n")
		return err
	})
	if err != nil {
		return err
	}
	slices.Sort(lines)
	return os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644) //nolint:gosec // readable by all users
}
