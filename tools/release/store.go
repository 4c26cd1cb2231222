package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is what a tag leads to: an image, or an index of images.
type entry struct {
	ref    string // REPOSITORY:TAG
	digest v1.Hash
	image  v1.Image
	index  v1.ImageIndex
}

// store is where a release is: a folder or a registry.
type store interface {
	get(repository, tag string) (entry, error)
}

// layoutStore reads the layout of a folder.
type layoutStore struct{ entries []entry }

// readLayout returns the entries of a layout, in the order in which they were added.
func readLayout(folder string) (s layoutStore, err error) {
	path, err := layout.FromPath(folder)
	if err != nil {
		return s, err
	}
	index, err := path.ImageIndex()
	if err != nil {
		return s, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return s, err
	}
	for _, m := range manifest.Manifests {
		e := entry{ref: m.Annotations[refName], digest: m.Digest}
		var of interface{ RawManifest() ([]byte, error) }
		if m.MediaType.IsIndex() {
			e.index, err = index.ImageIndex(m.Digest)
			of = e.index
		} else {
			e.image, err = index.Image(m.Digest)
			of = e.image
		}
		if err == nil {
			err = checkDescriptor(m, of)
		}
		if err != nil {
			return s, fmt.Errorf("%s: %w", e.ref, err)
		}
		s.entries = append(s.entries, e)
	}
	return s, nil
}

// checkDescriptor compares what the layout says of a manifest with the manifest.
func checkDescriptor(d v1.Descriptor, of interface{ RawManifest() ([]byte, error) }) error {
	raw, err := of.RawManifest()
	if err != nil {
		return err
	}
	var own struct {
		MediaType types.MediaType `json:"mediaType"`
		Config    struct {
			MediaType string `json:"mediaType"`
		} `json:"config"`
	}
	if err := json.Unmarshal(raw, &own); err != nil {
		return err
	}
	if own.MediaType != d.MediaType || int64(len(raw)) != d.Size {
		return fmt.Errorf("is a %s of %d bytes; the layout says %s of %d", own.MediaType, len(raw), d.MediaType, d.Size)
	}
	if d.ArtifactType != "" && d.ArtifactType != own.Config.MediaType {
		return fmt.Errorf("is a %s; the layout says %s", own.Config.MediaType, d.ArtifactType)
	}
	return nil
}

func (s layoutStore) get(repository, tag string) (entry, error) {
	for _, e := range s.entries {
		if e.ref == repository+":"+tag {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("%s:%s is not in the folder of images", repository, tag)
}

// remoteStore is a registry, and the path below it.
type remoteStore struct {
	path     string
	insecure bool
	options  []remote.Option
}

func newRemote(ctx context.Context, path string, insecure bool) remoteStore {
	return remoteStore{path, insecure, []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("purser-release"),
	}}
}

func (r remoteStore) tag(ref string) (name.Tag, error) {
	if r.insecure {
		return name.NewTag(r.path+"/"+ref, name.Insecure)
	}
	return name.NewTag(r.path + "/" + ref)
}

// get resolves a tag, and reads what it leads to by its digest.
func (r remoteStore) get(repository, tag string) (e entry, err error) {
	ref, err := r.tag(repository + ":" + tag)
	if err != nil {
		return e, err
	}
	head, err := remote.Head(ref, r.options...)
	if err != nil {
		return e, fmt.Errorf("%s: %w", ref, err)
	}
	d, err := remote.Get(ref.Digest(head.Digest.String()), r.options...)
	if err != nil {
		return e, fmt.Errorf("%s: %w", ref, err)
	}
	e = entry{ref: repository + ":" + tag, digest: d.Digest}
	if d.MediaType.IsIndex() {
		e.index, err = d.ImageIndex()
	} else {
		e.image, err = d.Image()
	}
	return e, err
}

// checkImageContent reads an image whole, and compares each part with its digest.
func checkImageContent(image v1.Image, digest v1.Hash) error {
	raw, err := image.RawManifest()
	if err != nil {
		return err
	}
	if err := checkDigest("the manifest", raw, digest); err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	if err := checkDigest("the config", config, manifest.Config.Digest); err != nil {
		return err
	}
	for _, l := range manifest.Layers {
		if err := checkLayer(image, l.Digest); err != nil {
			return fmt.Errorf("layer %s: %w", l.Digest, err)
		}
	}
	return nil
}

func checkLayer(image v1.Image, want v1.Hash) error {
	layer, err := image.LayerByDigest(want)
	if err != nil {
		return err
	}
	r, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	got, _, err := v1.SHA256(r)
	if err == nil && got != want {
		err = fmt.Errorf("its content has the digest %s", got)
	}
	return err
}

func checkDigest(what string, content []byte, want v1.Hash) error {
	got, err := digestOf(content)
	if err == nil && got != want {
		err = fmt.Errorf("%s has the digest %s, want %s", what, got, want)
	}
	return err
}

// content returns a layer of an artifact, after a comparison with its digest.
func content(image v1.Image, d v1.Descriptor) ([]byte, error) {
	layer, err := image.LayerByDigest(d.Digest)
	if err != nil {
		return nil, err
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return text, checkDigest("a layer", text, d.Digest)
}
