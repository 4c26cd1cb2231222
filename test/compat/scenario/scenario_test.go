package scenario_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/test/compat/scenario"
)

func TestParse(t *testing.T) {
	s, err := scenario.Parse("# why\nloose chance\npvc c{1..2} 1Gi RWO class=a completed ann='k=a b'\nstart\nexpect pvc c1 Bound volume=v\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.Notes != "why\n" || s.Cold != 2 || s.Loose != "chance" || len(s.Steps) != 3 {
		t.Errorf("%+v", s)
	}
	second := s.Steps[1]
	if value, _ := second.Option("ann"); second.Name != "c2" || value != "k=a b" || !second.Has("completed") {
		t.Errorf("%+v", second)
	}
	if diff := cmp.Diff([]string{"1Gi", "RWO"}, second.Words); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"pv v 1Gi RWO class=a":               "no comment at the top",
		"# x\npv v 1Gi class=a":              "1 words follow the name, not 2",
		"# x\npv v 1Gi RWO colour=blue":      `no option "colour"`,
		"# x\npvc c 1Gi RWO":                 "gets any default class",
		"# x\npvc c 1Gi RWO class=":          "meets other scenarios",
		"# x\npv v 1Gi RWO":                  "meets other scenarios",
		"# x\nclass a default":               "needs 'lane shared'",
		"# x\nfly away":                      `no verb "fly"`,
		"# x\nsettle down":                   "stands alone",
		"# x\npatch pv v '{":                 "not closed",
		"# x\nexpect cat tom Bound":          "with a kind of",
		"# x\nlane shared\nclass a\nstart\n": "before the controllers start",
	} {
		if _, err := scenario.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestLoadRefusesTwoOfOneName(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("# x\nsettle\n")}
	if _, err := scenario.Load(fstest.MapFS{"a/b-c.txt": file, "a-b/c.txt": file}); err == nil {
		t.Error("two scenarios would share a namespace")
	}
}
