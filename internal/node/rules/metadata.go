package mounting

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// Keys of a metadata file (5.4).
const (
	dataSpec       = "specVolID"
	dataHandle     = "volumeHandle"
	dataDriver     = "driverName"
	dataNode       = "nodeName"
	dataAttachment = "attachmentID"
	dataLifecycle  = "volumeLifecycleMode"

	persistent = "Persistent"
	inline     = "Ephemeral"
)

// Metadata is the content of a metadata file: what a restarted agent or kubelet needs to know to
// unpublish and unstage.
type Metadata struct {
	Spec, Handle, Driver, Node, Attachment, Lifecycle string
}

// StageMetadata is the content of the file beside the staging path of a filesystem volume.
func StageMetadata(key Key) Metadata { return Metadata{Handle: key.Handle, Driver: key.Driver} }

// PublishMetadata is the content of the file beside a target.
func PublishMetadata(key Key, id ID, node string) Metadata {
	m := BlockMetadata(key, id.Spec, node)
	m.Lifecycle = persistent
	if key.IsInline() {
		m.Lifecycle = inline
	}
	return m
}

// BlockMetadata is the content of the file of a raw block volume.
func BlockMetadata(key Key, spec, node string) Metadata {
	return Metadata{
		Spec:       spec,
		Handle:     key.VolumeID(),
		Driver:     key.Driver,
		Node:       node,
		Attachment: key.attachment(node),
	}
}

// attachment returns the name of the volume's VolumeAttachment, whether it has one or not.
func (k Key) attachment(node string) string {
	return names.AttachmentName(k.VolumeID(), k.Driver, node)
}

// Encode returns the bytes that a kubelet writes: one JSON object with sorted keys and a newline.
func (m Metadata) Encode() ([]byte, error) {
	fields := map[string]string{}
	for key, value := range map[string]string{
		dataSpec: m.Spec, dataHandle: m.Handle, dataDriver: m.Driver, dataNode: m.Node, dataAttachment: m.Attachment,
		dataLifecycle: m.Lifecycle,
	} {
		if value != "" {
			fields[key] = value
		}
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(fields); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// ParseMetadata reads a metadata file. The error names what a volume cannot be unmounted without.
func ParseMetadata(content []byte) (Metadata, error) {
	fields := map[string]string{}
	if err := json.Unmarshal(content, &fields); err != nil {
		return Metadata{}, fmt.Errorf("no JSON object of strings: %w", err)
	}
	m := Metadata{
		Spec: fields[dataSpec], Handle: fields[dataHandle], Driver: fields[dataDriver],
		Node: fields[dataNode], Attachment: fields[dataAttachment], Lifecycle: fields[dataLifecycle],
	}
	if m.Driver == "" || m.Handle == "" {
		return m, fmt.Errorf(
			"%s=%q, %s=%q: both are needed to unmount the volume", dataDriver, m.Driver, dataHandle, m.Handle,
		)
	}
	return m, nil
}

// Key returns the key of the volume that a pod's metadata file is about.
func (m Metadata) Key(pod types.UID) Key {
	if m.Lifecycle == inline {
		return Key{Driver: m.Driver, Pod: pod, Name: m.Spec}
	}
	return Key{Driver: m.Driver, Handle: m.Handle}
}

// inlineHandle is the handle of an inline volume: a kubelet makes it from the pod and the volume's
// name in it (5.4).
func inlineHandle(pod types.UID, volume string) string {
	sum := sha256.Sum256([]byte(string(pod) + volume))
	return "csi-" + hex.EncodeToString(sum[:])
}
