package ui

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// The role of the chart has each kind that the pages show, to list and to watch, but no secret.
func TestRoleOfChart(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "chart", "templates", "ui.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	rule := regexp.MustCompile(`- apiGroups: \["?([a-z0-9.]*)"?\]\n\s+resources: \[([a-z, ]+)\]\n\s+verbs: \[list, watch\]`)
	for _, match := range rule.FindAllStringSubmatch(string(text), -1) {
		for resource := range strings.SplitSeq(match[2], ", ") {
			got = append(got, match[1]+"/"+resource)
		}
	}
	for _, r := range inventory.Rules() {
		if r.Resource != "secrets" {
			want = append(want, r.Group+"/"+r.Resource)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the role has %q, want %q", got, want)
	}
	if strings.Contains(string(text), "secrets]") {
		t.Error("the role has secrets")
	}
}
