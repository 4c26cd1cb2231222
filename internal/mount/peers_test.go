package mount

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
)

// The columns are those of /proc/self/mountinfo.
func TestPeerCopies(t *testing.T) {
	const table = `1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
2 1 8:1 /data /kubelet rw shared:1 - ext4 /dev/sda1 rw
3 2 7:0 / /kubelet/vol rw shared:9 - ext4 /dev/loop0 rw
4 1 7:0 / /data/vol rw shared:9 - ext4 /dev/loop0 rw
5 1 7:0 / /kubelet-of-another/vol rw shared:9 - ext4 /dev/loop0 rw
6 1 8:1 / /private rw - ext4 /dev/sda1 rw
7 6 7:0 / /private/vol rw shared:9 - ext4 /dev/loop0 rw
8 6 7:0 / /private/other rw - ext4 /dev/loop0 rw
9 1 7:1 / /data/vol rw - ext4 /dev/loop1 rw
`
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(table), nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"/kubelet/vol":            {"/data/vol", "/kubelet/vol"},
		"/data/vol":               {"/data/vol", "/kubelet/vol"},
		"/kubelet-of-another/vol": {"/kubelet-of-another/vol"},
		"/private/vol":            {"/private/vol"},
		"/private/other":          {"/private/other"},
		"/nothing":                {"/nothing"},
	} {
		got := slices.Sorted(maps.Keys(PeerCopies(mounts, path)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
