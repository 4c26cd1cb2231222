package controllers

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/roles/registry"
)

// Section 10: each controller can be swapped by itself, under the names of kube-controller-manager.
func TestControllersEnabled(t *testing.T) {
	but := func(off string) []string {
		return slices.DeleteFunc(registry.Names(), func(name string) bool { return name == off })
	}
	for _, tc := range []struct {
		wanted []string
		on     []string
		err    string
	}{
		{[]string{"*"}, registry.Names(), ""},
		{[]string{"*", "-attachdetach"}, but(registry.NameAttachDetach), ""},
		{[]string{"*", "-" + registry.NameBinder}, but(registry.NameBinder), ""},
		{[]string{"-" + registry.NameBinder, "*"}, but(registry.NameBinder), ""},
		{[]string{registry.NameBinder}, []string{registry.NameBinder}, ""},
		{[]string{"persistentvolume-binder"}, []string{registry.NameBinder}, ""},
		{[]string{"*", "-pvc-protection"}, but(registry.NameClaimProtection), ""},
		{[]string{"attachdetach"}, []string{registry.NameAttachDetach}, ""},
		{[]string{"nodeipam"}, nil, `"nodeipam" is not known`},
		{[]string{"-*"}, nil, `"-*" is not known`},
		{[]string{"-" + registry.NameBinder}, nil, "nothing is left to run"},
	} {
		c := Controllers{Wanted: tc.wanted}
		on, err := c.Enabled()
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: %v, want an error that has %s", tc.wanted, err, tc.err)
			}
			continue
		}
		var got []string
		for _, name := range registry.Names() {
			if on[name] {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(tc.on, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", tc.wanted, err, diff)
		}
	}
}

// The page on migrating lists controllers to switch off in kube-controller-manager. They are
// exactly those that this role runs.
func TestControllersToSwitchOff(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	if flag := "   --controllers=*,-" + strings.Join(registry.Names(), ",-") + "\n"; !strings.Contains(string(page), flag) {
		t.Errorf("no %s in docs/migrating.md", flag)
	}
}

func TestControllersValidateListsEveryMistake(t *testing.T) {
	c := New()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.Wanted, c.Workers, c.RetryMax, c.KubeAPIQPS = []string{"nonsense"}, 0, 1, float32(math.NaN())
	c.HTTPEndpoint, c.MetricsPath = ":8080", "metrics"
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--controllers", "--worker-threads=0", "--retry-interval-max=1ns", "--kube-api-qps=NaN", `--metrics-path="metrics"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in %v", want, err)
		}
	}
}
