package directory

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/mount"
	"golang.org/x/sys/unix"
)

// Config is what a directory backend needs.
type Config struct {
	// StateDir is the absolute path of a folder that belongs to the driver.
	StateDir string
	// MountsBelow lists the mounts below a folder; mount.Below when nil.
	MountsBelow func(dir string) ([]string, error)
}

// Backend keeps volumes in directories.
type Backend struct {
	volumes     string
	temp        string
	trash       string
	mountsBelow func(dir string) ([]string, error)
	reserve     *reserve.Reserve
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Lister      = (*Backend)(nil)
	_ backend.Pool        = (*Backend)(nil)
	_ backend.Direct      = (*Backend)(nil)
	_ backend.UsageReader = (*Backend)(nil)
	_ backend.Recoverer   = (*Backend)(nil)
	_ backend.Checker     = (*Backend)(nil)
	_ backend.Reserved    = (*Backend)(nil)
)

// New describes a backend. Nothing is made on disk before Recover.
func New(config Config) (*Backend, error) {
	if !filepath.IsAbs(config.StateDir) {
		return nil, fmt.Errorf("state directory %q: give an absolute path", config.StateDir)
	}
	if config.MountsBelow == nil {
		config.MountsBelow = mount.Below
	}
	return &Backend{
		volumes:     filepath.Join(config.StateDir, "volumes"),
		temp:        filepath.Join(config.StateDir, "temp"),
		trash:       filepath.Join(config.StateDir, "trash"),
		mountsBelow: config.MountsBelow,
		reserve:     reserve.New(config.StateDir),
	}, nil
}

// CheckCapability implements backend.Rules.
func (b *Backend) CheckCapability(c backend.Capability) error {
	switch {
	case c.Type != backend.Mount:
		return fault.Invalid.Errorf(
			"access_type %s: a directory cannot be a block device; ask for a mount volume", c.Type,
		)
	case c.FSType != "":
		return fault.Invalid.Errorf(
			"mount.fs_type %.128q: a directory has no filesystem of its own; leave fs_type empty (no "+
				"csi.storage.k8s.io/fstype in the storage class)",
			c.FSType,
		)
	case len(c.MountFlags) > 0:
		// The flags are not repeated: they may be sensitive.
		return fault.Invalid.Errorf(
			"mount.mount_flags: %d given, but a directory is not mounted with options of its own; remove "+
				"mountOptions from the storage class",
			len(c.MountFlags),
		)
	case c.MountGroup != "":
		return fault.Invalid.Errorf(
			"mount.volume_mount_group %.128q: not supported (VOLUME_MOUNT_GROUP is not advertised); leave it empty",
			c.MountGroup,
		)
	default:
		return nil
	}
}

// CheckParameters implements backend.Rules: there is nothing to choose.
func (b *Backend) CheckParameters(parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(parameters))
	return fault.Invalid.Errorf(
		"parameters: unknown keys %.128q; directory volumes take no parameters, remove them from the storage class",
		keys,
	)
}

// Check implements backend.Checker. It asks instead of writing: probes are
// frequent, and a full disk is no reason to restart the driver.
func (b *Backend) Check(context.Context) error {
	for _, dir := range []string{b.volumes, b.temp, b.trash} {
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fault.Unready.Errorf("state directory %s is not writable: %w", dir, err)
		}
	}
	return nil
}

// Reserve implements backend.Reserved.
func (b *Backend) Reserve() *reserve.Reserve { return b.reserve }

func (b *Backend) path(id backend.ID) string { return filepath.Join(b.volumes, id.String()) }

// classify gives an error of the filesystem the kind that callers react to.
func classify(doing string, err error) error {
	if reserve.IsFull(err) {
		return fault.Exhausted.Errorf("%s: %w; free some space or move the state directory", doing, err)
	}
	return fault.Internal.Errorf("%s: %w", doing, err)
}
