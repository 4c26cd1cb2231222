package e2e

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// documents reads the objects of a manifest.
func documents(t *testing.T, path string) (objects []*unstructured.Unstructured) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		must(t, err)
		objects = append(objects, o)
	}
}

// A cluster accepts every shipped manifest: each is applied with a dry run, in which an unknown
// field is an error.
//
// ofPopulators is left out: the custom resource of its kind is upstream's.
func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	root, err := stage.Root()
	must(t, err)
	// Of deploy/chart, the rendered objects are applied in internal/roles; deploy/chart-values has values
	// of other charts, and deploy/monitoring is for Prometheus.
	elsewhere := []string{"chart", "chart-values", "monitoring"}
	for _, folder := range []string{"deploy", "examples"} {
		must(t, filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && slices.Contains(elsewhere, entry.Name()) {
				return filepath.SkipDir
			}
			if err == nil && strings.HasSuffix(entry.Name(), ".yaml") && entry.Name() != ofPopulators {
				t.Run(strings.TrimPrefix(path, root+string(filepath.Separator)), func(t *testing.T) { b.mustTake(t, path) })
			}
			return err
		}))
	}
}

func (b testNamespace) mustTake(t *testing.T, path string) {
	t.Helper()
	objects := documents(t, path)
	if len(objects) == 0 {
		t.Error("no objects")
	}
	for _, o := range objects {
		namespaced, err := b.Client.IsObjectNamespaced(o)
		must(t, err)
		if namespaced && o.GetNamespace() == "" {
			o.SetNamespace(b.name)
		}
		if namespaced {
			home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.GetNamespace()}}
			must(t, client.IgnoreAlreadyExists(b.Client.Create(t.Context(), home)))
		}
		err = b.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.FieldOwner(b.name), client.ForceOwnership)
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

const ofPopulators = "populator-http-registration.yaml"
