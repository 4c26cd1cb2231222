package main

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

const (
	statementType     = "https://in-toto.io/Statement/v1"
	payloadType       = "application/vnd.in-toto+json"
	provenanceType    = "https://slsa.dev/provenance/v1"
	spdxType          = "https://spdx.dev/Document"
	buildType         = project + "/blob/main/docs/releasing.md#the-build"
	simpleSigning     = types.MediaType("application/vnd.dev.cosign.simplesigning.v1+json")
	dsseEnvelope      = types.MediaType("application/vnd.dsse.envelope.v1+json")
	signatureKey      = "dev.cosignproject.cosign/signature"
	predicateKey      = "predicateType"
	signatureEnding   = ".sig"
	attestationEnding = ".att"
)

// statement is an in-toto statement.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

// subject is a file or an image that a statement is about.
type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance is SLSA's predicate. It has no times and no identity of a run: they would differ between
// two builds of the same source.
type provenance struct {
	Definition struct {
		Type         string         `json:"buildType"`
		External     map[string]any `json:"externalParameters"`
		Internal     map[string]any `json:"internalParameters"`
		Dependencies []subject      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Run struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// writeProvenance writes the statement about all files and images, in a signed envelope if there is a
// key, and returns the envelope.
func (r *release) writeProvenance(items []item) ([]byte, error) {
	sums, err := sumFiles(r.out)
	if err != nil {
		return nil, err
	}
	s := statement{Type: statementType, PredicateType: provenanceType, Predicate: r.provenance()}
	for _, f := range sums {
		s.Subject = append(s.Subject, subject{Name: f.name, Digest: map[string]string{"sha256": f.digest}})
	}
	for _, i := range items {
		s.Subject = append(s.Subject, subjectOf(i.repository+":"+i.tag, i.digest))
		for _, arch := range slices.Sorted(maps.Keys(i.platforms)) {
			s.Subject = append(s.Subject, subjectOf(i.repository+":"+i.tag+" for linux/"+arch, i.platforms[arch]))
		}
	}
	text, err := r.envelope(s)
	if err != nil {
		return nil, err
	}
	return text, writeFile(filepath.Join(r.out, provenanceFile), append(text, '\n'))
}

func subjectOf(name string, digest v1.Hash) subject {
	return subject{Name: name, Digest: map[string]string{digest.Algorithm: digest.Hex}}
}

func (r *release) provenance() (p provenance) {
	p.Definition.Type = buildType
	p.Definition.External = map[string]any{"version": r.version, "target": "release"}
	p.Definition.Internal = map[string]any{"go": r.goVersion, "uncommittedChanges": r.dirty}
	p.Definition.Dependencies = []subject{{URI: "git+" + project, Digest: map[string]string{"gitCommit": r.commit}}}
	p.Run.Builder.ID = r.builder
	return p
}

// envelope returns a statement in a DSSE envelope; without a key it has no signature.
func (r *release) envelope(s statement) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	e := dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(body), Signatures: []dsse.Signature{},
	}
	if r.signer != nil {
		sig, err := r.signer.sign(dsse.PAE(payloadType, body))
		if err != nil {
			return nil, err
		}
		e.Signatures = append(e.Signatures, dsse.Signature{Sig: base64.StdEncoding.EncodeToString(sig)})
	}
	return json.Marshal(e)
}

// signImages adds the signatures and attestations of the items, and of each platform of an image, to the
// layout, under the tags where cosign looks for them.
func (r *release) signImages(l layout.Path, items []item, provenance []byte) error {
	if r.signer == nil {
		return nil
	}
	for _, i := range items {
		attested := []blob{attestation(provenance, provenanceType)}
		if i.repository == filesRepository {
			attested = nil // its files have the provenance, which cannot have its digest
		}
		if err := r.signDigest(l, i.repository, i.digest, attested); err != nil {
			return err
		}
		for _, arch := range slices.Sorted(maps.Keys(i.platforms)) {
			boms, err := r.attestSBOMs(i, arch)
			if err != nil {
				return err
			}
			if err := r.signDigest(l, i.repository, i.platforms[arch], append(boms, attested...)); err != nil {
				return err
			}
		}
	}
	return nil
}

func attestation(envelope []byte, predicateType string) blob {
	return blob{envelope, dsseEnvelope, map[string]string{signatureKey: "", predicateKey: predicateType}}
}

// attestSBOMs returns the SBOMs of an image as attestations: that of the program, and for the driver's
// image that of the packages.
func (r *release) attestSBOMs(i item, arch string) (blobs []blob, err error) {
	names := []string{r.programArchive(arch) + sbomEnding}
	if i.repository == driverImage {
		names = append(names, r.packagesSBOM(arch))
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return nil, err
		}
		envelope, err := r.envelope(statement{
			Type: statementType, PredicateType: spdxType, Predicate: json.RawMessage(text),
			Subject: []subject{subjectOf(i.repository+":"+i.tag, i.platforms[arch])},
		})
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, attestation(envelope, spdxType))
	}
	return blobs, nil
}

// signDigest adds the signature of a digest, and its attestations if there are any. The signature's
// reference has no registry: what is signed is the digest, wherever it is pushed.
func (r *release) signDigest(l layout.Path, repository string, digest v1.Hash, attested []blob) error {
	text, err := json.Marshal(payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: repository},
		Image:    payload.Image{DockerManifestDigest: digest.String()},
		Type:     payload.CosignSignatureType,
	}})
	if err != nil {
		return err
	}
	sig, err := r.signer.sign(text)
	if err != nil {
		return err
	}
	signed := blob{text, simpleSigning, map[string]string{signatureKey: base64.StdEncoding.EncodeToString(sig)}}
	tag := repository + ":" + digest.Algorithm + "-" + digest.Hex
	if err := addSigned(l, tag+signatureEnding, signed); err != nil || len(attested) == 0 {
		return err
	}
	return addSigned(l, tag+attestationEnding, attested...)
}

// addSigned adds an artifact in the form of an image whose layers are signatures or attestations.
func addSigned(l layout.Path, ref string, blobs ...blob) error {
	config := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	for _, b := range blobs {
		digest, err := digestOf(b.content)
		if err != nil {
			return err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest)
	}
	_, err := addArtifact(l, ref, types.OCIConfigJSON, config, nil, blobs...)
	return err
}
