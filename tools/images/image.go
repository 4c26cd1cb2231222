package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// names are the images. Each but the last is called like the sidecar whose place it takes.
var names = []string{
	"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller",
	"volume-data-source-validator", "csi-external-health-monitor-controller", "csi-node-driver-registrar",
	"livenessprobe", "csi-snapshot-metadata", "purser",
}

// ofNodes are the images that run as root, as upstream's: the folder of the kubelet and the socket of a
// driver on a node are root's, and charts set no user (NR-10, LP-16).
var ofNodes = []string{"csi-node-driver-registrar", "livenessprobe"}

// root is the user of these.
const root = "0:0"

// user is neither root nor a user of the node (SM-74).
const user = "65532:65532"

// maxSize of a layer, uncompressed.
const maxSize = 65_000_000

// write writes a layout for each image and an SBOM for each binary.
func (o options) write() error {
	layers := map[string]v1.Layer{}
	for _, arch := range architectures {
		binary, err := os.ReadFile(o.binaries[arch])
		if err != nil {
			return err
		}
		if len(binary) > maxSize {
			return fmt.Errorf("%s has %d bytes, more than %d", o.binaries[arch], len(binary), maxSize)
		}
		if layers[arch], err = o.layer(binary); err != nil {
			return err
		}
		if err := o.writeSBOM(arch, binary); err != nil {
			return err
		}
	}
	for _, name := range names {
		index, err := o.index(name, only(layers))
		if err == nil {
			_, err = layout.Write(filepath.Join(o.out, name), index)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	if o.lock == "" {
		return nil
	}
	return o.writeDriver(layers)
}

// only makes each layer all that an image has.
func only(layers map[string]v1.Layer) map[string][]v1.Layer {
	all := map[string][]v1.Layer{}
	for arch, layer := range layers {
		all[arch] = []v1.Layer{layer}
	}
	return all
}

// layer has the binary, and a link to it for each name.
func (o options) layer(binary []byte) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	const everybodyRuns = 0o755
	headers := []*tar.Header{{Name: "purser", Size: int64(len(binary)), Mode: everybodyRuns, Typeflag: tar.TypeReg}}
	for _, name := range names[:len(names)-1] {
		headers = append(headers, &tar.Header{
			Name:     name,
			Linkname: "purser",
			Mode:     everybodyRuns,
			Typeflag: tar.TypeSymlink,
		})
	}
	for _, h := range headers {
		h.ModTime, h.Format = o.created, tar.FormatUSTAR
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(binary); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layerFrom(content.Bytes())
}

// layerFrom is a layer with the content of a tar archive.
func layerFrom(content []byte) (v1.Layer, error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// index is one image for all architectures.
func (o options) index(name string, layers map[string][]v1.Layer) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		image, err := o.image(name, arch, layers[arch])
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

func (o options) image(name, arch string, layers []v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: o.created}
	config.Config = v1.Config{
		User: user, Entrypoint: []string{"/" + name}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       name,
			"org.opencontainers.image.version":     o.version,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/purser-csi/purser",
			"org.opencontainers.image.description": "Purser, the Kubernetes volume plane, as " + name,
		},
	}
	if slices.Contains(ofNodes, name) {
		config.Config.User = root
	}
	if name == driverImage { // it mounts
		config.Config.User, config.Config.Entrypoint = root, []string{"/purser"}
		config.Config.Env = []string{"PATH=/usr/sbin:/usr/bin"}
	}
	return mutate.ConfigFile(image, config)
}
