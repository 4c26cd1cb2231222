package filesystem

import "context"

// NewIdentity gives the filesystem in a fresh copy a uuid of its own, so that
// source and copy can be told apart, and btrfs can mount both. xfs is mounted
// in a way that needs none, and an ext4 that was made elsewhere may need a
// rewrite, which is not worth it: ext4 does not care.
func NewIdentity(ctx context.Context, c Content, path string) error {
	if !c.CheapIdentity {
		return nil
	}
	switch c.Type {
	case Ext4:
		return run(ctx, traitsOf[Ext4].packaged, "tune2fs", "-U", "random", path)
	case Btrfs:
		return run(ctx, traitsOf[Btrfs].packaged, "btrfstune", "-m", path)
	default:
		return nil
	}
}
