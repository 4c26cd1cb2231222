package roles

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/roles/registry"
)

// deploy/rbac/controllers.yaml is generated from the registry.
func TestReferenceControllersManifest(t *testing.T) {
	path := filepath.Join("..", "..", "deploy", "rbac", "controllers.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(registry.Manifest()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(registry.Manifest(), string(have)); diff != "" {
		t.Errorf("%s is out of date; run 'make generate':\n%s", path, diff)
	}
}
