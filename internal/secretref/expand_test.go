package secretref

import (
	"os"
	"testing"
)

// FuzzExpand: the oracle is the function that the upstream provisioner calls.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "${", "${}", "${a}", "$a.b", "a${b}c$d", "${*}x", "${*", "$1x", "${pvc.annotations['a']}", "$é", "${$}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, template string) {
		mark := func(token string) string { return "<" + token + ">" }
		if got, want := expand(template, mark), os.Expand(template, mark); got != want {
			t.Errorf("%q: got %q, want %q", template, got, want)
		}
	})
}
