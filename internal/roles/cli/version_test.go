package cli

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

// `version` names the build and the libraries whose version decides what is spoken, without a cluster.
func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
		Deps: []*debug.Module{
			{Path: "k8s.io/api", Version: "v0.37.0"},
			{Path: "github.com/container-storage-interface/spec", Version: "v1.13.0"},
			{Path: "example.com/other", Version: "v1.0.0"},
		},
	}
	var text strings.Builder
	if err := buildOf("v1.2.3", info).print(&text, "text"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"version    v1.2.3\n", "commit     abc, with changes\n", "API        v0.37.0\n", "CSI        v1.13.0\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	c := VersionCommand("v1.2.3")
	var out strings.Builder
	c.SetOut(&out)
	c.SetArgs([]string{"-o", "json"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	var got Build
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Version != "v1.2.3" || got.Go == "" {
		t.Errorf("%v, %+v", err, got)
	}
	c.SetArgs([]string{"-o", "poem"})
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--output=poem: expected text or json") {
		t.Error(err)
	}
}
