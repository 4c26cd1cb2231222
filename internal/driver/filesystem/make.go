package filesystem

import (
	"context"
	"strings"
)

// Space is the kind of the image under a new filesystem.
type Space int

const (
	// Sparse images have no space yet and should get as little as possible.
	Sparse Space = iota
	// Allocated images keep the space that they have.
	Allocated
)

// Make makes a filesystem on a blank file. It overwrites what is there: the
// caller has looked.
func Make(ctx context.Context, t Type, path string, space Space) error {
	var err error
	for range attempts {
		err = run(ctx, traitsOf[t].packaged, traitsOf[t].maker, makeArguments(t, path, space)...)
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), lostRace) {
			return err
		}
	}
	return err
}

// mkfs.btrfs asks every loop device that is mounted for its image, and fails,
// before it writes, when one of them is detached meanwhile. On a busy machine
// this happens, and not many times in a row.
const (
	attempts = 20
	lostRace = "cannot check mount status"
)

func makeArguments(t Type, path string, space Space) []string {
	switch t {
	case Ext4:
		// The journal is left as it is: zeros, in a blank file. The inode
		// tables are as well when mkfs may discard first, which tells it that
		// they read as zeros; otherwise the kernel writes them later. With
		// metadata_csum_seed a clone can get a new uuid without a rewrite of
		// every checksum.
		extended := "lazy_journal_init=1,lazy_itable_init=1"
		if space == Allocated {
			extended += ",nodiscard"
		}
		return []string{"-q", "-F", "-m0", "-O", "metadata_csum_seed", "-E", extended, path}
	case XFS:
		return []string{"-q", "-K", "-f", path}
	default:
		return []string{"-q", "-K", "-f", path}
	}
}

// Present says which program is missing to make this type; nil when none is.
func Present(t Type) error {
	_, err := lookUp(traitsOf[t].maker, traitsOf[t].packaged)
	return err
}
