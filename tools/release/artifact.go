package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is something in a registry that is no image: a manifest with a config and layers of any type.
type artifact struct {
	manifest, config []byte
	layers           map[v1.Hash]v1.Layer
}

// blob is a layer of an artifact.
type blob struct {
	content     []byte
	media       types.MediaType
	annotations map[string]string
}

// newArtifact returns an artifact, whose kind is the media type of its config.
func newArtifact(
	configType types.MediaType, config any, annotations map[string]string, blobs ...blob,
) (v1.Image, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	a := &artifact{config: text, layers: map[v1.Hash]v1.Layer{}}
	digest, err := digestOf(text)
	if err != nil {
		return nil, err
	}
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: v1.Descriptor{MediaType: configType, Digest: digest, Size: int64(len(text))},
		Layers: []v1.Descriptor{},
	}
	for _, b := range blobs {
		layer := static.NewLayer(b.content, b.media)
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		a.layers[digest] = layer
		m.Layers = append(m.Layers, v1.Descriptor{
			MediaType: b.media, Digest: digest, Size: int64(len(b.content)), Annotations: b.annotations,
		})
	}
	if a.manifest, err = json.Marshal(m); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// RawManifest returns the manifest.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// RawConfigFile returns the config.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// MediaType returns that of the manifest.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest returns a layer.
func (a *artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if layer, ok := a.layers[digest]; ok {
		return layer, nil
	}
	return nil, fmt.Errorf("no layer has the digest %s", digest)
}

// digestOf returns the digest of a content.
func digestOf(content []byte) (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(content))
	return digest, err
}
