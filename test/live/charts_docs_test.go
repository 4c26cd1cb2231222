package live

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// chartSection is a heading of docs/migrating.md and the file with values below it.
var chartSection = regexp.MustCompile(`(?m)^## (.+)\n\nValues: \[(.+)\]\(\.\./(deploy/chart-values/.+)\)\.\n`)

// The values for a chart that docs/migrating.md names change the images of exactly those sidecars that
// TestCharts starts with the chart's command lines (SM-1 to SM-11, SM-119), and there are no others.
func TestChartValues(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n# Chart by chart")
	got := map[string][]string{}
	for _, section := range chartSection.FindAllStringSubmatch(part, -1) {
		content, err := os.ReadFile(filepath.Join("..", "..", section[3]))
		if err != nil || path.Base(section[3]) != section[2] {
			t.Errorf("%s: %s: %v", section[1], section[2], err)
		}
		var values map[string]any
		if err := yaml.UnmarshalStrict(content, &values); err != nil {
			t.Errorf("%s: %v", section[3], err)
		}
		roles := map[string]bool{}
		for _, leaf := range valueLeaves("", values) {
			if role := roleOfLeaf(leaf); role != "" {
				roles[role] = true
			}
		}
		got[section[1]] = slices.Sorted(maps.Keys(roles))
	}
	if files, err := filepath.Glob(filepath.Join("..", "..", "deploy", "chart-values", "*")); err != nil || len(files) != len(got) {
		t.Errorf("%d files, and %d sections: %v", len(files), len(got), err)
	}
	want := map[string][]string{}
	for _, row := range readCharts(t).Rows {
		name := map[string]string{
			"ceph-csi rbd": "ceph-csi", "ceph-csi cephfs": "ceph-csi", "ceph-csi-operator": "Rook and ceph-csi-operator", "aws-ebs": "aws-ebs-csi-driver",
		}[row.Chart]
		if name == "" {
			name = row.Chart
		}
		if !slices.Contains(want[name], row.Role) {
			want[name] = append(want[name], row.Role)
			slices.Sort(want[name])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-TestCharts +docs/migrating.md):\n%s", diff)
	}
}

// valueLeaves are the values of a tree with their paths, as "a.b.c=value".
func valueLeaves(path string, tree any) (all []string) {
	branches, ok := tree.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s=%v", path, tree)}
	}
	for name, branch := range branches {
		all = append(all, valueLeaves(strings.TrimPrefix(path+"."+name, "."), branch)...)
	}
	return all
}

// roleOfLeaf is the sidecar whose image a value is of: by the image, else by the key of a tag.
func roleOfLeaf(leaf string) string {
	key, value, _ := strings.Cut(leaf, "=")
	sidecars := []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller"}
	for _, role := range sidecars {
		if strings.Contains(value, role) {
			return role
		}
	}
	for _, role := range sidecars {
		word := strings.ReplaceAll(strings.TrimPrefix(role, "csi-"), "-c", "C")
		if strings.HasSuffix(key, "."+word+"Tag") {
			return role
		}
	}
	return ""
}
