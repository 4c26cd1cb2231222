package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// CB-22, CB-H1: the role of the service has no more than upstream's sample and the classes, and
// that of backup programs is upstream's without the tokens of every account.
func TestSnapshotMetadataRoles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("optional", "csi-snapshot-metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]string{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var role rbacv1.ClusterRole
		err := decoder.Decode(&role)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if got[role.Name] == nil {
					got[role.Name] = map[string]string{}
				}
				got[role.Name][rule.APIGroups[0]+"/"+resource] = strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")
			}
		}
	}
	want := map[string]map[string]string{
		"purser-csi-snapshot-metadata": {
			"authentication.k8s.io/tokenreviews":             "create",
			"authorization.k8s.io/subjectaccessreviews":      "create",
			"cbt.storage.k8s.io/snapshotmetadataservices":    "get",
			"snapshot.storage.k8s.io/volumesnapshots":        "get",
			"snapshot.storage.k8s.io/volumesnapshotcontents": "get list",
			"snapshot.storage.k8s.io/volumesnapshotclasses":  "get list", // CB-H1
		},
		"purser-snapshot-metadata-client": {
			"snapshot.storage.k8s.io/volumesnapshots":        "get list watch",
			"snapshot.storage.k8s.io/volumesnapshotcontents": "get list watch",
			"cbt.storage.k8s.io/snapshotmetadataservices":    "get list",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
