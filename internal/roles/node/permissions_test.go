package node

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/process"
)

// What an account may do in all namespaces and a node does not need is said with its effect.
func TestWideGrants(t *testing.T) {
	all, secrets, tokens := wideGrants[0].Permission, wideGrants[1].Permission, wideGrants[2].Permission
	for row, tc := range map[string]struct {
		missing []process.Permission
		want    string
	}{
		"an administrator":   {nil, "* *.*"},
		"secrets":            {[]process.Permission{all, tokens}, "get secrets"},
		"secrets and tokens": {[]process.Permission{all}, "get secrets, create serviceaccounts/token"},
		"what a node needs":  {[]process.Permission{all, secrets, tokens}, ""},
	} {
		var got []string
		for _, g := range granted(tc.missing) {
			got = append(got, g.String())
			if g.effect == "" || g.advice == "" {
				t.Errorf("%s: no effect or advice", g)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: %q, want %q", row, got, tc.want)
		}
	}
}
