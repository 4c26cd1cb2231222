package controllers

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Section 10: each controller can be swapped by itself, under the names of kube-controller-manager.
func TestControllersEnabled(t *testing.T) {
	but := func(off string) []string {
		return slices.DeleteFunc(Names(), func(name string) bool { return name == off })
	}
	for _, tc := range []struct {
		wanted []string
		on     []string
		err    string
	}{
		{[]string{"*"}, Names(), ""},
		{[]string{"*", "-attachdetach"}, but(NameAttachDetach), ""},
		{[]string{"*", "-" + NameBinder}, but(NameBinder), ""},
		{[]string{"-" + NameBinder, "*"}, but(NameBinder), ""},
		{[]string{NameBinder}, []string{NameBinder}, ""},
		{[]string{"persistentvolume-binder"}, []string{NameBinder}, ""},
		{[]string{"*", "-pvc-protection"}, but(NameClaimProtection), ""},
		{[]string{"attachdetach"}, []string{NameAttachDetach}, ""},
		{[]string{"nodeipam"}, nil, `"nodeipam" is not known`},
		{[]string{"-*"}, nil, `"-*" is not known`},
		{[]string{"-" + NameBinder}, nil, "nothing is left to run"},
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
		for _, name := range Names() {
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
	if flag := "   --controllers=*,-" + strings.Join(Names(), ",-") + "\n"; !strings.Contains(string(page), flag) {
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

// A controller that does not run needs no permission.
func TestPermissionsFollowTheControllers(t *testing.T) {
	c := New()
	c.Wanted = []string{NameExpand}
	checks, err := (&sidecar.Sidecar{Config: &c.Config, Role: c.Role()}).Checks(t.Context())
	if err != nil || len(checks) != 1 {
		t.Fatal(len(checks), err)
	}
	for _, p := range checks[0].Wanted {
		if p.Resource == "pods" || p.Verb == "create" && p.Resource != "events" {
			t.Errorf("%s asks for %s", NameExpand, p)
		}
	}
	seen := map[string]bool{}
	for _, c := range All(nil) {
		if seen[c.Name] || seen[c.Alias] || currentName(c.Alias) != c.Name || currentName(c.Name) != c.Name {
			t.Errorf("%s and %s are not names of one controller", c.Name, c.Alias)
		}
		seen[c.Name], seen[c.Alias] = true, true
	}
}
