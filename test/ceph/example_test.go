package ceph

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	driverceph "github.com/purser-csi/purser/internal/driver/backend/ceph"
)

// manifest is what the kinds of the example have in common, and what differs.
type manifest struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Parameters map[string]string `json:"parameters"`
	StringData map[string]string `json:"stringData"`
}

func example(t *testing.T) (all []manifest) {
	t.Helper()
	content, err := os.ReadFile("../../deploy/examples/ceph.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		var m manifest
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

// What the example says is what the backend accepts, and its secrets are there.
func TestTheExampleIsAccepted(t *testing.T) {
	const reserved, suffix = "csi.storage.k8s.io/", "-secret-name"
	b, err := driverceph.New(driverceph.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	kinds, secrets := map[string]int{}, map[string]bool{}
	for _, m := range example(t) {
		kinds[m.Kind]++
		if m.Kind == "Secret" {
			secrets[m.Metadata.Namespace+"/"+m.Metadata.Name] = true
			if _, has := m.StringData["userKey"]; !has || m.StringData["userID"] == "" {
				t.Errorf("secret %s has not what the driver reads", m.Metadata.Name)
			}
			continue
		}
		own := maps.Clone(m.Parameters)
		maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, reserved) })
		switch m.Kind {
		case "StorageClass":
			err = b.CheckParameters(own)
			if changes := own["kind"] == "rbd"; changes != (m.Parameters[reserved+"controller-modify"+suffix] != "") {
				t.Errorf("%s: images, and they alone, can change their VolumeAttributesClass, which takes a secret", m.Metadata.Name)
			}
		case "VolumeAttributesClass":
			err = b.CheckMutable(own)
		case "VolumeSnapshotClass":
			if len(own) > 0 {
				t.Errorf("%s: snapshots take no parameters: %v", m.Metadata.Name, own)
			}
		}
		if err != nil {
			t.Errorf("%s %s: %v", m.Kind, m.Metadata.Name, err)
		}
		for key, name := range m.Parameters {
			if what, is := strings.CutSuffix(key, suffix); is && !secrets[m.Parameters[what+"-secret-namespace"]+"/"+name] {
				t.Errorf("%s %s: %s names a secret that is not in the example", m.Kind, m.Metadata.Name, key)
			}
		}
	}
	if kinds["StorageClass"] != 2 || kinds["VolumeSnapshotClass"] != 1 || kinds["VolumeAttributesClass"] != 1 {
		t.Errorf("the example has %v", kinds)
	}
}
