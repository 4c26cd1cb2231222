package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

const (
	refName  = "org.opencontainers.image.ref.name" // of an entry of the layout: REPOSITORY:TAG
	fileName = "org.opencontainers.image.title"    // of a layer: the name of the file that it is

	chartConfig  = types.MediaType("application/vnd.cncf.helm.config.v1+json")
	chartContent = types.MediaType("application/vnd.cncf.helm.chart.content.v1.tar+gzip")
	filesConfig  = types.MediaType("application/vnd.purser.release.v1+json")

	chartRepository = "charts/purser"
	filesRepository = "release"
)

// item is what is pushed under a tag and signed.
type item struct {
	repository, tag string
	digest          v1.Hash
	platforms       map[string]v1.Hash // manifests of an image, by architecture
}

func (i item) String() string { return i.repository + ":" + i.tag + "@" + i.digest.String() }

// newLayout makes an empty OCI layout.
func newLayout(folder string) (layout.Path, error) { return layout.Write(folder, empty.Index) }

// addImages adds the images and the chart to the layout.
func (r *release) addImages(l layout.Path) (items []item, err error) {
	entries, err := os.ReadDir(r.images)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		i, err := r.addImage(l, entry.Name())
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", entry.Name(), err)
		}
		items = append(items, i)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("-images=%s: has no image; make image writes them", r.images)
	}
	i, err := r.addChart(l)
	return append(items, i), err
}

func (r *release) addImage(l layout.Path, name string) (i item, err error) {
	from, err := layout.FromPath(filepath.Join(r.images, name))
	if err != nil {
		return i, err
	}
	index, err := from.ImageIndex()
	if err != nil {
		return i, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return i, err
	}
	i = item{repository: name, tag: r.version, platforms: map[string]v1.Hash{}}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err == nil {
			err = r.checkImage(image, m.Platform.Architecture)
		}
		if err != nil {
			return i, fmt.Errorf("%s: %w", m.Platform, err)
		}
		i.platforms[m.Platform.Architecture] = m.Digest
	}
	if len(i.platforms) != len(architectures) {
		return i, fmt.Errorf("has %d architectures, want %v", len(i.platforms), architectures)
	}
	if i.digest, err = index.Digest(); err != nil {
		return i, err
	}
	return i, l.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: i.repository + ":" + i.tag}))
}

// checkImage fails for an image that was left by a build of another version: its label and its program
// must be those of the release.
func (r *release) checkImage(image v1.Image, arch string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if got := config.Config.Labels["org.opencontainers.image.version"]; got != r.version {
		return fmt.Errorf("is of version %q, want %s; make image writes it again", got, r.version)
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	if len(layers) == 0 {
		return errors.New("has no layer")
	}
	got, err := programIn(layers[len(layers)-1])
	if err != nil {
		return err
	}
	want, err := sumOf(filepath.Join(r.binaries, "purser-"+arch))
	if err == nil && got != want {
		err = fmt.Errorf("has another program than -binaries=%s; build both from one commit", r.binaries)
	}
	return err
}

// programIn returns the SHA-256 of the program in a layer.
func programIn(layer v1.Layer) (string, error) {
	compressed, err := layer.Compressed()
	if err != nil {
		return "", err
	}
	defer compressed.Close()
	z, err := gzip.NewReader(compressed)
	if err != nil {
		return "", err
	}
	for members := tar.NewReader(z); ; {
		h, err := members.Next()
		if err != nil {
			return "", noProgram(err)
		}
		if h.Name == "purser" && h.Typeflag == tar.TypeReg {
			digest := sha256.New()
			_, err := io.Copy(digest, members)
			return hex.EncodeToString(digest.Sum(nil)), err
		}
	}
}

// addChart adds the chart as Helm stores it in a registry.
func (r *release) addChart(l layout.Path) (i item, err error) {
	content, err := os.ReadFile(filepath.Join(r.out, r.chartFile()))
	if err != nil {
		return i, err
	}
	text, err := memberOf(content, "purser/Chart.yaml")
	if err != nil {
		return i, fmt.Errorf("%s: %w", r.chartFile(), err)
	}
	var metadata map[string]any
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return i, fmt.Errorf("%s: Chart.yaml: %w", r.chartFile(), err)
	}
	tag := strings.TrimPrefix(r.version, "v")
	if metadata["version"] != tag || metadata["appVersion"] != r.version {
		return i, fmt.Errorf("%s: version %v and appVersion %v, want %s and %s; make chart writes them",
			r.chartFile(), metadata["version"], metadata["appVersion"], tag, r.version)
	}
	annotations := map[string]string{
		fileName:                            "purser",
		"org.opencontainers.image.version":  tag,
		"org.opencontainers.image.created":  r.created.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.source":   project,
		"org.opencontainers.image.revision": r.commit,
	}
	archive := blob{content: content, media: chartContent}
	return addArtifact(l, chartRepository+":"+tag, chartConfig, metadata, annotations, archive)
}

// addFiles adds the files of the release as one artifact, so that a registry alone has the release.
func (r *release) addFiles(l layout.Path) (i item, err error) {
	names, err := files(r.out)
	if err != nil {
		return i, err
	}
	var blobs []blob
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return i, err
		}
		blobs = append(blobs, blob{content, "application/octet-stream", map[string]string{fileName: name}})
	}
	config := map[string]string{"version": r.version, "commit": r.commit}
	return addArtifact(l, filesRepository+":"+r.version, filesConfig, config, nil, blobs...)
}

func addArtifact(
	l layout.Path, ref string, configType types.MediaType, config any, annotations map[string]string, blobs ...blob,
) (i item, err error) {
	a, err := newArtifact(configType, config, annotations, blobs...)
	if err != nil {
		return i, err
	}
	i.repository, i.tag, _ = strings.Cut(ref, ":")
	if i.digest, err = a.Digest(); err != nil {
		return i, err
	}
	return i, l.AppendImage(a, layout.WithAnnotations(map[string]string{refName: ref}))
}

// writeImageList writes the digests of what the layout has: a line REPOSITORY:TAG@DIGEST for each.
func (r *release) writeImageList(items []item) error {
	var lines []string
	for _, i := range items {
		lines = append(lines, i.String()+"\n")
	}
	slices.Sort(lines)
	return writeFile(filepath.Join(r.out, imagesFile), []byte(strings.Join(lines, "")))
}

// readImageList returns the items of the list.
func readImageList(folder string) (items []item, err error) {
	text, err := os.ReadFile(filepath.Join(folder, imagesFile))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		i, err := parseItem(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", imagesFile, err)
		}
		items = append(items, i)
	}
	return items, nil
}

func parseItem(line string) (i item, err error) {
	ref, digest, ok := strings.Cut(line, "@")
	i.repository, i.tag, _ = strings.Cut(ref, ":")
	if !ok || i.repository == "" || i.tag == "" {
		return i, fmt.Errorf("%q: want REPOSITORY:TAG@DIGEST", line)
	}
	i.digest, err = v1.NewHash(digest)
	return i, err
}

// memberOf returns a file of a tar.gz archive.
func memberOf(archive []byte, name string) ([]byte, error) {
	z, err := gzip.NewReader(strings.NewReader(string(archive)))
	if err != nil {
		return nil, err
	}
	for members := tar.NewReader(z); ; {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("has no %s", name)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == name {
			return io.ReadAll(members)
		}
	}
}
