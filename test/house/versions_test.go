package house

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The README names the versions that go.mod files pin.
func TestReadmeNamesTestedVersions(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pinned := range []struct{ row, file, module string }{
		{"Kubernetes", "tools/go.mod", "k8s.io/kubernetes"},
		{"external-provisioner", "tools/provisioner/go.mod", "github.com/kubernetes-csi/external-provisioner/v6"},
		{"external-attacher", "tools/attacher/go.mod", "github.com/kubernetes-csi/external-attacher/v4"},
		{"external-resizer", "tools/resizer/go.mod", "github.com/kubernetes-csi/external-resizer/v2"},
		{"external-snapshotter", "tools/snapshotter/go.mod", "github.com/kubernetes-csi/external-snapshotter/v8"},
		{"CSI specification", "go.mod", "github.com/container-storage-interface/spec"},
	} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pinned.file)))
		if err != nil {
			t.Fatal(err)
		}
		required := regexp.MustCompile(`(?m)^(?:require )?\s*` + regexp.QuoteMeta(pinned.module) + ` v(\S+)`)
		version := required.FindSubmatch(text)
		if version == nil {
			t.Errorf("%s does not require %s", pinned.file, pinned.module)
			continue
		}
		row := regexp.MustCompile(`(?m)^\| ` + pinned.row + `[^|]*\| ` + regexp.QuoteMeta(string(version[1])) + ` \|$`)
		if !row.Match(readme) {
			t.Errorf("README.md has no row %q with version %s, which %s pins", pinned.row, version[1], pinned.file)
		}
	}
}
