package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CB-22, CB-H1: the role of the service has no more than upstream's sample and the classes, and
// that of backup programs is upstream's without the tokens of every account.
func TestSnapshotMetadataRoles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("optional", "csi-snapshot-metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]string{}
	for _, object := range rbacObjects(t, text) {
		if len(object.Rules) > 0 {
			got[object.Name] = object.allows()
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
