package filesystem

import (
	"slices"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Type is a filesystem that a volume can have.
type Type string

// The types. A raw block volume has Nothing.
const (
	Nothing Type = ""
	Ext4    Type = "ext4"
	XFS     Type = "xfs"
	Btrfs   Type = "btrfs"
)

// Default is for those who do not choose.
const Default = Ext4

// Types are all that there are.
var Types = []Type{Ext4, XFS, Btrfs}

const mebi = 1 << 20

// traits are the differences between the types.
type traits struct {
	// minimum is the smallest size that mkfs accepts; for ext4 the smallest
	// that has room for a journal, without which a crash of the machine
	// would damage the volume.
	minimum int64
	// leastGrown is the smallest size that the kernel grows one to, where
	// that is more than the minimum.
	leastGrown int64
	// maker is the program that makes one, and where it comes from.
	maker, packaged string
	// options are those of every mount.
	options []string
	// discard lets deleted files make room in the image.
	discard string
	// keepSpace stops what would make holes in the image.
	keepSpace string
}

var traitsOf = map[Type]traits{
	Ext4: {
		minimum: 2 * mebi, maker: "mkfs.ext4", packaged: "e2fsprogs",
		// A pool that runs full shows up as errors when an inode is written.
		options: []string{"errors=remount-ro"}, discard: "discard",
		// The kernel zeroes the inode tables that mkfs has left out, and to a
		// loop device that is a hole in its file.
		keepSpace: "noinit_itable",
	},
	XFS: {
		minimum: 300 * mebi, maker: "mkfs.xfs", packaged: "xfsprogs",
		// A clone has the uuid of its source, and xfs would refuse the second
		// one of them.
		options: []string{"nouuid"}, discard: "discard",
	},
	Btrfs: {
		minimum: 110 * mebi, maker: "mkfs.btrfs", packaged: "btrfs-progs",
		// BTRFS_IOC_RESIZE answers EINVAL below that.
		leastGrown: 256 * mebi,
		discard:    "discard=async",
	},
}

// Minimum is the smallest size of a filesystem.
func (t Type) Minimum() int64 { return traitsOf[t].minimum }

// LeastGrown is the smallest size that a filesystem can grow to; one that is
// made as large as that can be smaller.
func (t Type) LeastGrown() int64 { return traitsOf[t].leastGrown }

// Parse reads a name as it stands in a storage class. The empty name is
// Nothing: the caller chooses.
func Parse(name string) (Type, error) {
	t := Type(name)
	if t == Nothing || slices.Contains(Types, t) {
		return t, nil
	}
	return Nothing, fault.Invalid.Errorf(
		"fs_type %.32q is not supported; take one of %s, or none for %s (csi.storage.k8s.io/fstype in the storage "+
			"class)",
		name,
		Types,
		Default,
	)
}
