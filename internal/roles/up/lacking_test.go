package up

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What the machine cannot do is said at the start, with the classes that need it.
func TestLacking(t *testing.T) {
	find := func(missing ...string) func(string) (string, error) {
		return func(program string) (string, error) {
			if slices.Contains(missing, program) {
				return "", errors.New("not found")
			}
			return "/sbin/" + program, nil
		}
	}
	for row, tc := range map[string]struct {
		uid  int
		find func(string) (string, error)
		sys  bool
		want []string
	}{
		"nothing":            {0, find(), true, nil},
		"no xfs":             {0, find("mkfs.xfs"), true, []string{"no mkfs.xfs: classes with csi.storage.k8s.io/fstype: xfs"}},
		"no resize2fs":       {0, find("resize2fs"), true, []string{"no resize2fs: classes with csi.storage.k8s.io/fstype: ext4"}},
		"no capability":      {0, find(), false, []string{"CAP_SYS_RESOURCE: an ext4 volume"}},
		"folders as volumes": {1000, find("mkfs.xfs", "mkfs.ext4"), false, nil},
	} {
		got := lacking(tc.uid, tc.find, tc.sys)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %q", row, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], tc.want[i]) {
				t.Errorf("%s: %q, want %q", row, got[i], tc.want[i])
			}
		}
	}
}

// A number of nodes out of range is refused once, with the range.
func TestNodesRange(t *testing.T) {
	for _, n := range []int{-1, mostNodes + 1} {
		err := (&Up{NodeName: "n", Nodes: n}).validateNodes()
		if err == nil || strings.Count(err.Error(), "--nodes") != 1 || !strings.Contains(err.Error(), "from 0 to 5000") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
