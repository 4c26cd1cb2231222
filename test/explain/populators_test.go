package explain

import (
	"slices"
	"strings"
	"testing"
)

// A tree of a claim that a populator fills has the prime claim, with its volume and the pod that writes the data.
func TestTreeOfAPopulator(t *testing.T) {
	base, all := readSituations(t)
	i := slices.IndexFunc(all, func(s situation) bool { return s.Name == "the pod of a populator cannot read the source" })
	if i < 0 {
		t.Fatal("the situation is not there")
	}
	tree, err := run(t, "tree", "pvc/disk", "-n", "shop", "--now", now, "--from", all[i].dump(t, base))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pvc/prime-uid-disk", "pv/pvc-uid-prime", "pod/populate-uid-disk", "waits for its data, which pod populate-uid-disk",
	} {
		if !strings.Contains(tree, want) {
			t.Errorf("%s is not in the tree:\n%s", want, tree)
		}
	}
}
