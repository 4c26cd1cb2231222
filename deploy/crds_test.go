package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The custom resources of snapshots are those of the version that tools/crds/go.mod pins. To mend:
// tools/crds.sh deploy
func TestCustomResourcesArePinned(t *testing.T) {
	shipped := files(t, "crds")
	if len(shipped) != 7 {
		t.Errorf("deploy/crds has %d files, want six custom resources and the version", len(shipped))
	}
	pin := "github.com/kubernetes-csi/external-snapshotter/client/v8 " + strings.TrimSpace(shipped["version"]) + "\n"
	if module, err := os.ReadFile(filepath.Join("..", "tools", "crds", "go.mod")); err != nil || !strings.Contains(string(module), pin) {
		t.Errorf("tools/crds/go.mod does not pin %s (%v)", pin, err)
	}
	chart := "version: " + strings.TrimPrefix(strings.TrimSpace(shipped["version"]), "v")
	for file, want := range map[string]string{
		filepath.Join("chart", "charts", "snapshot-crds", "Chart.yaml"): chart + "\n",
		filepath.Join("chart", "Chart.yaml"):                            "name: snapshot-crds, " + chart + ",",
	} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q (%v)", file, want, err)
		}
	}
	built := filepath.Join("..", "bin", "crds")
	if _, err := os.Stat(built); err != nil {
		t.Skip("the files are not compared: tools/crds.sh bin has not been run")
	}
	if diff := cmp.Diff(files(t, built), shipped); diff != "" {
		t.Errorf("deploy/crds differs from the module's files (-module +shipped):\n%s", diff)
	}
}

func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(text)
	}
	return all
}
