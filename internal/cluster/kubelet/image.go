package kubelet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Image returns an OCI layout around one static program, as a tar archive that containerd imports
// under the given name. args are the arguments that containers run the program with by default.
func Image(name string, program []byte, args ...string) ([]byte, error) {
	const file = "program"
	return ImageOf(name, map[string][]byte{file: program}, append([]string{"/" + file}, args...)...)
}

// ImageOf returns an OCI layout around files, each of them executable, as Image does. command is the
// program that containers run, and its default arguments.
func ImageOf(name string, content map[string][]byte, command ...string) ([]byte, error) {
	type object = map[string]any
	files := map[string][]byte{}
	add := func(blob []byte) object {
		sum := sha256.Sum256(blob)
		digest := hex.EncodeToString(sum[:])
		files[path.Join("blobs/sha256", digest)] = blob
		return object{"digest": "sha256:" + digest, "size": len(blob)}
	}
	described := func(v any, mediaType string) (object, error) {
		blob, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		entry := add(blob)
		entry["mediaType"] = "application/vnd.oci.image." + mediaType
		return entry, nil
	}
	tarred, err := archive(content)
	if err != nil {
		return nil, err
	}
	layer := add(tarred)
	layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar"
	config, err := described(object{
		"architecture": runtime.GOARCH, "os": runtime.GOOS,
		"config": object{"Entrypoint": command[:1], "Cmd": command[1:]},
		"rootfs": object{"type": "layers", "diff_ids": []any{layer["digest"]}},
	}, "config.v1+json")
	if err != nil {
		return nil, err
	}
	manifest, err := described(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
		"layers": []object{layer},
	}, "manifest.v1+json")
	if err != nil {
		return nil, err
	}
	_, tag, _ := strings.Cut(path.Base(name), ":")
	manifest["annotations"] = object{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(object{"schemaVersion": 2, "manifests": []object{manifest}})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	files["index.json"], files["oci-layout"] = index, []byte(`{"imageLayoutVersion":"1.0.0"}`)
	return archive(files)
}

// archive returns the files as a tar archive, each of them executable.
func archive(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))})
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close the archive: %w", err)
	}
	return out.Bytes(), nil
}
