package mount

import (
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// PeerCopies returns the paths at which a mount table shows the mounts at path:
// path itself, and the copies that the kernel made of them in the peer group of
// the mount below. The kernel takes all copies away with any of them, so a copy
// is no other user. An example is /var/lib/kubelet as a bind mount of a folder
// of a shared root: a mount below it shows below that folder too.
func PeerCopies(table []*mountinfo.Info, path string) map[string]bool {
	byID := make(map[int]*mountinfo.Info, len(table))
	for _, m := range table {
		byID[m.ID] = m
	}
	own := map[place]bool{}
	for _, m := range table {
		if m.Mountpoint == path {
			own[placeOf(m, byID[m.Parent])] = true
		}
	}
	delete(own, place{})
	copies := map[string]bool{path: true}
	for _, m := range table {
		if own[placeOf(m, byID[m.Parent])] {
			copies[m.Mountpoint] = true
		}
	}
	return copies
}

// place is where a mount hangs, apart from the path that leads there: what is
// mounted, the peer group of the mount below it, and the path within that
// mount's filesystem. The zero place is that of a mount whose parent is private.
type place struct {
	major, minor int
	root         string
	peers        string
	inside       string
}

func placeOf(m, parent *mountinfo.Info) place {
	if parent == nil {
		return place{}
	}
	for field := range strings.FieldsSeq(parent.Optional) {
		if !strings.HasPrefix(field, "shared:") {
			continue
		}
		inside, err := filepath.Rel(parent.Mountpoint, m.Mountpoint)
		if err != nil {
			return place{}
		}
		return place{m.Major, m.Minor, m.Root, field, filepath.Join(parent.Root, inside)}
	}
	return place{}
}
