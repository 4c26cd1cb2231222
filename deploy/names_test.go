package deploy

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// inNamespaces are the kinds of the manifests that are in a namespace; all others are of the cluster.
var inNamespaces = []string{
	"ConfigMap", "DaemonSet", "Deployment", "Job", "Lease", "PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "ReferenceGrant", "Role",
	"RoleBinding", "Secret", "Service", "ServiceAccount", "StatefulSet", "VolumeGroupSnapshot", "VolumeSnapshot",
}

// Two manifests do not have different objects of the cluster with one name: applying one changes the
// other's object, and deleting one breaks the other, as a shared CSIDriver does.
func TestNoManifestHasTheObjectOfAnother(t *testing.T) {
	type object struct {
		file    string
		content *unstructured.Unstructured
	}
	seen, kinds := map[string]object{}, map[string]bool{}
	for _, root := range []string{".", "../examples"} {
		eachObject(t, root, func(file string, o *unstructured.Unstructured) {
			if kinds[o.GetKind()] = true; slices.Contains(inNamespaces, o.GetKind()) {
				return
			}
			key := o.GroupVersionKind().GroupKind().String() + " " + o.GetName()
			before, again := seen[key]
			if diff := cmp.Diff(before.content, o); again && diff != "" {
				t.Errorf("%s is in %s and, with another content, in %s:\n%s", key, before.file, file, diff)
			}
			seen[key] = object{file, o}
		})
	}
	for _, kind := range []string{"CSIDriver", "StorageClass", "VolumeSnapshotClass", "ClusterRole", "ClusterRoleBinding"} {
		if !kinds[kind] {
			t.Errorf("no %s was read", kind)
		}
	}
}

// eachObject visits the objects of the manifests below a folder, without the chart.
func eachObject(t *testing.T, root string, visit func(file string, o *unstructured.Unstructured)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "chart"), d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var o unstructured.Unstructured
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if o.Object != nil && o.GetKind() != "" {
				visit(path, &o)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
