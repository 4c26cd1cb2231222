package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// checkItem verifies what a tag leads to: its digest, its content, and the signatures and attestations
// of it and of its platforms.
func (v verification) checkItem(i item) error {
	e, err := v.store.get(i.repository, i.tag)
	if err != nil {
		return err
	}
	if e.digest != i.digest {
		return fmt.Errorf("the tag leads to %s", e.digest)
	}
	if err := v.checkSigned(i.repository, e.digest, provenanceType); err != nil {
		return err
	}
	if e.image != nil {
		return checkImageContent(e.image, e.digest)
	}
	raw, err := e.index.RawManifest()
	if err == nil {
		err = checkDigest("the index", raw, e.digest)
	}
	if err != nil {
		return err
	}
	manifest, err := e.index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		image, err := e.index.Image(m.Digest)
		if err == nil {
			err = checkImageContent(image, m.Digest)
		}
		if err == nil {
			err = v.checkSigned(i.repository, m.Digest, provenanceType, spdxType)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Platform, err)
		}
	}
	return nil
}

// checkSigned verifies the signature of a digest, and that it has attestations of the types.
func (v verification) checkSigned(repository string, digest v1.Hash, predicates ...string) error {
	if err := v.checkSignature(repository, digest); err != nil {
		return err
	}
	want := map[string]bool{}
	for _, p := range predicates {
		want[p] = true
	}
	err := v.eachSigned(repository, digest, attestationEnding, func(_ v1.Descriptor, text []byte) error {
		s, err := v.open(text)
		if err != nil {
			return err
		}
		if !s.isAbout("", digest) {
			return errors.New("the statement is about something else")
		}
		delete(want, s.PredicateType)
		return nil
	})
	if err != nil {
		return fmt.Errorf("attestation of %s: %w", digest, err)
	}
	for missing := range maps.Keys(want) {
		return fmt.Errorf("%s has no attestation of type %s", digest, missing)
	}
	return nil
}

// checkSignature verifies the signature of a digest.
func (v verification) checkSignature(repository string, digest v1.Hash) error {
	signed := 0
	err := v.eachSigned(repository, digest, signatureEnding, func(d v1.Descriptor, text []byte) error {
		sig, err := base64.StdEncoding.DecodeString(d.Annotations[signatureKey])
		if err != nil {
			return err
		}
		if err := v.key.VerifySignature(bytes.NewReader(sig), bytes.NewReader(text)); err != nil {
			return err
		}
		var p payload.SimpleContainerImage
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		if p.Critical.Image.DockerManifestDigest != digest.String() {
			return fmt.Errorf("is of %s", p.Critical.Image.DockerManifestDigest)
		}
		signed++
		return nil
	})
	if err == nil && signed == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return fmt.Errorf("signature of %s@%s: %w", repository, digest, err)
	}
	return nil
}

// eachSigned visits what is stored under cosign's tag of a digest.
func (v verification) eachSigned(
	repository string, of v1.Hash, ending string, visit func(v1.Descriptor, []byte) error,
) error {
	e, err := v.store.get(repository, of.Algorithm+"-"+of.Hex+ending)
	if err != nil {
		return err
	}
	if e.image == nil {
		return fmt.Errorf("%s is an index", e.ref)
	}
	if err := checkImageContent(e.image, e.digest); err != nil {
		return fmt.Errorf("%s: %w", e.ref, err)
	}
	manifest, err := e.image.Manifest()
	if err != nil {
		return err
	}
	for _, l := range manifest.Layers {
		text, err := content(e.image, l)
		if err == nil {
			err = visit(l, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
