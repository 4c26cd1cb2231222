package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// driverImage is the image that has Debian packages below the program.
const driverImage = "purser-driver"

// writeSBOMs writes an SBOM of the program in each archive, and copies those of the driver's packages.
func (r *release) writeSBOMs() error {
	names, err := files(r.out)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isArchive(name) {
			continue
		}
		program, err := programOf(filepath.Join(r.out, name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		text, err := r.sbom(name, program)
		if err != nil {
			return fmt.Errorf("SBOM of %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(r.out, name+sbomEnding), text); err != nil {
			return err
		}
	}
	for _, arch := range architectures {
		from := filepath.Join(r.images, driverImage+"-"+arch+sbomEnding)
		text, err := os.ReadFile(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // without the driver's image
		}
		if err == nil {
			_, err = readSBOM(text)
		}
		if err == nil {
			err = writeFile(filepath.Join(r.out, r.packagesSBOM(arch)), text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return nil
}

// packagesSBOM is the file with the Debian packages of the driver's image.
func (r *release) packagesSBOM(arch string) string {
	return fmt.Sprintf("%s_%s_linux_%s%s", driverImage, r.version, arch, sbomEnding)
}

// sbom lists the modules that are linked into a program, as the Go linker noted them.
func (r *release) sbom(name string, program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	r.goVersion = info.GoVersion
	digest := sha256.Sum256(program)
	hexDigest := hex.EncodeToString(digest[:])
	d := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: project + "/sbom/" + name + "/" + hexDigest,
		CreationInfo: &spdx.CreationInfo{
			Created:  r.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "purser tools/release"}},
		},
	}
	addPackage(d, "DOCUMENT", "DESCRIBES", &spdx.Package{
		PackageName: info.Path, PackageVersion: r.version, PrimaryPackagePurpose: "APPLICATION",
		PackageLicenseDeclared: "Apache-2.0",
		PackageChecksums:       []common.Checksum{{Algorithm: common.SHA256, Value: hexDigest}},
	})
	root := d.Packages[0].PackageSPDXIdentifier
	addPackage(d, root, "CONTAINS", &spdx.Package{
		PackageName: "std", PackageVersion: strings.TrimPrefix(info.GoVersion, "go"),
	})
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		addPackage(d, root, "CONTAINS", &spdx.Package{PackageName: module.Path, PackageVersion: module.Version})
	}
	var text bytes.Buffer
	err = json.Write(d, &text, json.Indent("  "))
	return text.Bytes(), err
}

func addPackage(d *spdx.Document, from common.ElementID, kind string, p *spdx.Package) {
	p.PackageSPDXIdentifier = common.ElementID(fmt.Sprintf("%d", len(d.Packages)))
	p.PackageDownloadLocation = "NOASSERTION"
	p.PackageExternalReferences = []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: "pkg:golang/" + p.PackageName + "@" + p.PackageVersion,
	}}
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA:         common.MakeDocElementID("", string(from)),
		RefB:         common.MakeDocElementID("", string(p.PackageSPDXIdentifier)),
		Relationship: kind,
	})
}

// readSBOM reads an SBOM, which must describe a package.
func readSBOM(text []byte) (*spdx.Document, error) {
	var d spdx.Document
	if err := json.ReadInto(bytes.NewReader(text), &d); err != nil {
		return nil, err
	}
	if d.SPDXVersion != spdx.Version || len(d.Packages) == 0 {
		return nil, fmt.Errorf("%s with %d packages; want %s with one or more",
			d.SPDXVersion, len(d.Packages), spdx.Version)
	}
	return &d, nil
}

// checkSBOM compares the SBOM of an archive with the program in it.
func checkSBOM(path string) error {
	text, err := os.ReadFile(path + sbomEnding)
	if err != nil {
		return err
	}
	d, err := readSBOM(text)
	if err != nil {
		return fmt.Errorf("%s%s: %w", path, sbomEnding, err)
	}
	program, err := programOf(path)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(program)
	for _, c := range d.Packages[0].PackageChecksums {
		if c.Algorithm == common.SHA256 && c.Value == hex.EncodeToString(digest[:]) {
			return nil
		}
	}
	return fmt.Errorf("%s%s: is of another program than that in the archive", path, sbomEnding)
}

// programOf returns the program in an archive: its first file that is not the license.
func programOf(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".zip") {
		return programOfZip(content)
	}
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	for members := tar.NewReader(z); ; {
		h, err := members.Next()
		if err != nil {
			return nil, noProgram(err)
		}
		if h.Typeflag == tar.TypeReg && h.Name != licenseName {
			return io.ReadAll(members)
		}
	}
}

// licenseName is the name of the license in an archive.
const licenseName = "LICENSE"

func programOfZip(content []byte) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		if f.Name == licenseName {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	return nil, noProgram(io.EOF)
}

func noProgram(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the archive has no program")
	}
	return err
}
