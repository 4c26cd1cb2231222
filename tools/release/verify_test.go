package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigverify "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/spdx/tools-golang/spdxlib"
	"google.golang.org/protobuf/encoding/protojson"
)

// flip changes the byte in the middle of a file.
func flip(t *testing.T, path string) (restore func()) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(text)
	changed[len(changed)/2] ^= 1
	write := func(content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(changed)
	return func() { write(text) }
}

// One changed byte in any file of a release fails its verification.
func TestOneByte(t *testing.T) {
	in, folder := assembled(t)
	for name := range tree(t, folder) {
		if name == "images/oci-layout" {
			continue // the version of the layout, which is in no image
		}
		restore := flip(t, filepath.Join(folder, name))
		if err := run(t.Context(), []string{"verify", "-from", folder, "-key", in.key + ".pub"}, new(strings.Builder)); err == nil {
			t.Errorf("%s: a changed byte is not noticed", name)
		}
		restore()
	}
	command(t, "verify", "-from", folder, "-key", in.key+".pub")
	put(t, []byte("more"), folder, "more")
	if got := refused(t, "verify", "-from", folder, "-key", in.key+".pub"); got != "more is not in SHA256SUMS" {
		t.Error(got)
	}
}

// The checksums of changed files do not help without the key.
func TestChangedSums(t *testing.T) {
	in, folder := assembled(t)
	path := filepath.Join(folder, "purser.yaml")
	old, err := sumOf(path)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path)
	changed, err := sumOf(path)
	if err != nil {
		t.Fatal(err)
	}
	sums := strings.ReplaceAll(tree(t, folder)[sumsFile], old, changed)
	put(t, []byte(sums), folder, sumsFile)
	if got := refused(t, "verify", "-from", folder, "-key", in.key+".pub"); !strings.HasPrefix(got, "SHA256SUMS.sig: ") {
		t.Error(got)
	}
}

// The signature of another key is refused.
func TestOtherKey(t *testing.T) {
	_, folder := assembled(t)
	other := filepath.Join(t.TempDir(), "other")
	command(t, "key", "-out", other)
	if got := refused(t, "verify", "-from", folder, "-key", other+".pub"); !strings.HasPrefix(got, "SHA256SUMS.sig: ") {
		t.Error(got)
	}
}

// Sigstore's own verifier accepts the bundle, which is what cosign verifies a file with.
func TestBundle(t *testing.T) {
	in, folder := assembled(t)
	key, err := readPublicKey(in.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.LoadJSONFromPath(filepath.Join(folder, sumsFile+".sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(key, time.Time{}, time.Time{}), nil
	})
	v, err := sigverify.NewVerifier(trusted, sigverify.WithNoObserverTimestamps())
	if err != nil {
		t.Fatal(err)
	}
	sums := tree(t, folder)[sumsFile]
	if _, err := v.Verify(b, sigverify.NewPolicy(sigverify.WithArtifact(strings.NewReader(sums)), sigverify.WithKey())); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify(b, sigverify.NewPolicy(sigverify.WithArtifact(strings.NewReader(sums+"x")), sigverify.WithKey())); err == nil {
		t.Error("other checksums are accepted")
	}
}

// The provenance is an in-toto statement with SLSA's predicate, as in-toto's own types check it, and it
// is about every file and image.
func TestProvenance(t *testing.T) {
	in, folder := assembled(t)
	key, err := readPublicKey(in.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, folder)
	var e struct{ Payload []byte }
	if err := json.Unmarshal([]byte(files[provenanceFile]), &e); err != nil {
		t.Fatal(err)
	}
	if _, err := (verification{key: key}).open([]byte(files[provenanceFile])); err != nil {
		t.Fatal(err)
	}
	var s intoto.Statement
	if err := protojson.Unmarshal(e.Payload, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	predicate, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	var p provenancev1.Provenance
	if err := protojson.Unmarshal(predicate, &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if got := p.GetBuildDefinition().GetResolvedDependencies()[0].GetDigest()["gitCommit"]; got != testCommit {
		t.Errorf("commit %s", got)
	}
	about := map[string]string{}
	for _, subject := range s.Subject {
		about[subject.Name] = subject.Digest["sha256"]
	}
	digest := sha256.Sum256([]byte(files["purser-1.2.3.tgz"]))
	if about["purser-1.2.3.tgz"] != hex.EncodeToString(digest[:]) || about["purser:v1.2.3 for linux/arm64"] == "" {
		t.Errorf("about %v", about)
	}
}

// The SBOMs are valid, and list the modules that are linked into a program.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	bom, err := (&release{version: testVersion}).sbom("self", text)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readSBOM(bom)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(d); err != nil {
		t.Error(err)
	}
	versions := map[string]string{}
	for _, p := range d.Packages {
		versions[p.PackageName] = p.PackageVersion
	}
	if versions["github.com/google/go-containerregistry"] == "" || versions["std"] == "" {
		t.Errorf("packages %v", versions)
	}
	if _, err := readSBOM([]byte(`{"spdxVersion": "SPDX-2.3"}`)); err == nil {
		t.Error("an SBOM without a package is read")
	}
}
