package ceph

import (
	"context"
	"errors"
	"os"

	"github.com/go-logr/logr"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/sharing"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// stagingMode is that of a staging path which the caller did not make.
const stagingMode = 0o750

func (b *Backend) stage(ctx context.Context, s backend.Staging) error {
	o, err := volumeOf(s.Volume)
	if err != nil {
		return err
	}
	if err := checkKind(o.Kind, s.Capability); err != nil {
		return fault.Unsupported.Errorf("volume %q does not have this capability: %w", s.Volume, err)
	}
	have, found, err := b.readStaged(s.Volume)
	if err != nil {
		return err
	}
	if found && !have.Formatting && (have.Path != s.Path || have.Access != s.Capability.Type) {
		return fault.InUse.Errorf(
			"volume %q is staged at %s for access as %s; unstage it there first",
			s.Volume,
			have.Path,
			have.Access,
		)
	}
	if found {
		// A mount that cannot be checked may be in use, and is left as it is.
		if _, err := b.lookStaged(ctx, s.Volume, s.Path, s.Capability.Type); !fault.Unready.Is(err) {
			return err
		}
	}
	err = b.bringUp(ctx, s, o, have)
	if err == nil {
		return nil
	}
	if cleaning := b.unstage(context.WithoutCancel(ctx), s.Volume, s.Path); cleaning != nil {
		logr.FromContextOrDiscard(ctx).
			Error(cleaning, "What a failed stage left stays until it is repeated or undone", "volume", s.Volume.String())
	}
	return err
}

func (b *Backend) bringUp(ctx context.Context, s backend.Staging, o handle.Object, have stagedRecord) error {
	if err := os.Mkdir(s.Path, stagingMode); err != nil && !errors.Is(err, os.ErrExist) && !isDead(err) {
		return fault.Internal.Errorf("make the staging path: %w", err)
	}
	if o.Kind == handle.CephFS {
		return b.stageSubvolume(ctx, s, o)
	}
	return b.stageImage(ctx, s, o, have)
}

// isDead says that the daemon behind a path has ended.
func isDead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

// stageImage maps the image and mounts its filesystem.
func (b *Backend) stageImage(ctx context.Context, s backend.Staging, o handle.Object, r stagedRecord) error {
	image := b.image(s.Volume, o)
	mapper, named := mapping.Named(b.mappers, r.Way)
	if !named {
		var err error
		if mapper, err = mapping.Choose(ctx, b.mappers); err != nil {
			return err
		}
	}
	device, err := mapper.Find(ctx, image)
	if err != nil {
		return err
	}
	// A mark of this node that mkfs was started is valid while the image stays mapped. After that,
	// another node may have finished the filesystem, and the mark in the image is valid.
	r = stagedRecord{
		Path:       s.Path,
		Access:     s.Capability.Type,
		Way:        mapper.Name(),
		Formatting: r.Formatting && device != "",
	}
	if err := b.writeStaged(s.Volume, r); err != nil {
		return err
	}
	if device == "" {
		if device, err = b.mapImage(ctx, s, o, mapper); err != nil {
			return err
		}
		if r.Formatting, err = b.isHalfFormatted(ctx, s, o); err != nil {
			return err
		}
	}
	if s.Capability.Type == backend.Block {
		return b.giveUpFormat(ctx, s.Volume, o, r, device)
	}
	return b.mountImage(ctx, s, r, device)
}

// mapImage first checks for other clients that have the image open. RBD does not prevent two nodes
// from writing to one image, and the data would be lost.
func (b *Backend) mapImage(
	ctx context.Context, s backend.Staging, o handle.Object, mapper mapping.Mapper,
) (string, error) {
	pool, err := b.pool(ctx, o.Place)
	if err != nil {
		return "", err
	}
	watchers, err := pool.Watchers(ctx, o)
	if fault.NotFound.Is(err) {
		return "", backend.NoSuchVolume(s.Volume.String())
	}
	if err != nil {
		return "", err
	}
	if len(watchers) > 0 && !s.Capability.Mode.AllowsSeveralNodes() {
		return "", pool.InUse(o, watchers)
	}
	if err := b.forgetUndo(s.Volume); err != nil {
		return "", err
	}
	mode := mapping.ReadWrite
	if s.Capability.Mode.ReadsOnly() {
		mode = mapping.ReadOnly
	}
	device, err := mapper.Map(ctx, b.image(s.Volume, o), pool.Access, mode)
	if fault.NotFound.Is(err) {
		return "", backend.NoSuchVolume(s.Volume.String())
	}
	if err != nil || s.Capability.Mode.AllowsSeveralNodes() {
		return device, err
	}
	// Two nodes can have checked before either had it open. Now each sees the other, and both fail
	// and unmap the image. The driver reads no metadata meanwhile: rbd image-meta opens the image
	// for writing, and would count as another node.
	if watchers, err = pool.Watchers(ctx, o); err == nil && len(watchers) > 1 {
		err = pool.InUse(o, watchers)
	}
	return device, err
}

// mountImage mounts the filesystem on a device, made and grown where needed.
func (b *Backend) mountImage(ctx context.Context, s backend.Staging, r stagedRecord, device string) error {
	mounted, err := mountinfo.Mounted(s.Path)
	if err != nil {
		return fault.Internal.Errorf("look at the staging path: %w", err)
	}
	t, err := b.prepareImage(ctx, s, r, device, mounted)
	if err != nil {
		return err
	}
	if !mounted {
		if err := filesystem.Mount(filesystem.Mounting{
			Type: t, Device: device, Path: s.Path, Discard: true, Options: optionsOf(s.Capability, t),
		}); err != nil {
			return err
		}
	}
	if s.Capability.Mode.ReadsOnly() {
		return nil
	}
	if _, err := growMounted(device, s.Path); err != nil && !fault.InUse.Is(err) {
		return err
	}
	return nil
}

// optionsOf returns the mount options. Readers must not replay the log of the filesystem, since
// their devices are read-only.
func optionsOf(c backend.Capability, t filesystem.Type) []string {
	if !c.Mode.ReadsOnly() {
		return c.MountFlags
	}
	options := append([]string{"ro"}, c.MountFlags...)
	switch t {
	case filesystem.Ext4:
		return append(options, "noload")
	case filesystem.XFS:
		return append(options, "norecovery")
	case filesystem.Btrfs:
		return append(options, "rescue=nologreplay")
	default:
		return options
	}
}

// stageSubvolume mounts a folder of CephFS.
func (b *Backend) stageSubvolume(ctx context.Context, s backend.Staging, o handle.Object) error {
	mounter, err := sharing.Choose(b.mounters)
	if err != nil {
		return err
	}
	fs, err := b.filesystem(ctx, o.Place)
	if err != nil {
		return err
	}
	root, err := fs.Path(ctx, o)
	if err != nil {
		return err
	}
	r := stagedRecord{Path: s.Path, Access: s.Capability.Type, Way: mounter.Name()}
	if err := b.writeStaged(s.Volume, r); err != nil {
		return err
	}
	// A mount at this path is of a dead daemon, see Stage.
	if err := filesystem.Unmount(s.Path); err != nil {
		return err
	}
	return mounter.Mount(ctx, sharing.Folder{
		Filesystem: o.Pool, Root: root, Path: s.Path, Options: s.Capability.MountFlags,
	}, fs.Access)
}

// lookStaged checks this machine only, without the cluster.
func (b *Backend) lookStaged(
	ctx context.Context,
	id backend.ID,
	path string,
	access backend.AccessType,
) (string, error) {
	o, err := volumeOf(id)
	if err != nil {
		return "", err
	}
	r, found, err := b.readStaged(id)
	if err != nil {
		return "", err
	}
	if !found || r.Path != path || r.Access != access || r.Formatting {
		return "", fault.Unready.Errorf(
			"volume %q is not staged at %s for access as %s; stage it there first",
			id,
			path,
			access,
		)
	}
	device := ""
	if o.Kind == handle.RBD {
		if device, err = b.deviceOf(ctx, id, o, r); err != nil {
			return "", err
		}
	}
	if access == backend.Block {
		return device, nil
	}
	if problem := mountProblem(path); problem != nil {
		return "", fault.Unready.Errorf("volume %q is not mounted at %s any more: %w; stage it again", id, path, problem)
	}
	return path, nil
}

// mountProblem returns why the mount at a path cannot be used.
func mountProblem(path string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return err
	}
	mounted, err := mountinfo.Mounted(path)
	if err == nil && !mounted {
		err = errors.New("nothing is mounted there")
	}
	return err
}

// deviceOf finds the device of a staged volume.
func (b *Backend) deviceOf(ctx context.Context, id backend.ID, o handle.Object, r stagedRecord) (string, error) {
	mapper, known := mapping.Named(b.mappers, r.Way)
	if !known {
		return "", fault.Internal.Errorf(
			"volume %q was mapped by %q, which this version does not know; unmap it by hand and remove %s",
			id,
			r.Way,
			b.stagedDir(id),
		)
	}
	device, err := mapper.Find(ctx, b.image(id, o))
	if err == nil && device == "" {
		err = fault.Unready.Errorf("volume %q has no device any more; stage it again", id)
	}
	return device, err
}
