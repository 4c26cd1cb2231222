package ceph

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/cephfs"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/sharing"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/timelimit"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// DefaultConfDir is where Ceph itself looks for the configuration of clusters.
const DefaultConfDir = "/etc/ceph"

// Config is what a Ceph backend needs.
type Config struct {
	// StateDir is the absolute path of a folder that belongs to the driver.
	StateDir string
	// ConfDir has a file <name>.conf for each cluster; DefaultConfDir when
	// empty.
	ConfDir string
	// Tools runs the programs; those of this machine when nil.
	Tools *command.Runner
	// Mappers make devices of images; all when nil.
	Mappers []mapping.Mapper
	// Mounters mount CephFS; all when nil.
	Mounters []sharing.Mounter
	// Grace is how long a call waits for an operation that hangs in the kernel, see package
	// timelimit.
	Grace time.Duration
	// CopyWait is how long a call waits for what the cluster copies by
	// itself; [cephfs.DefaultWait] when zero.
	CopyWait time.Duration
	// SweepEvery is how long the trash of a pool is left alone, see
	// [rbd.Sweeper].
	SweepEvery time.Duration
}

// Backend keeps volumes in Ceph.
type Backend struct {
	tools    *command.Runner
	mappers  []mapping.Mapper
	mounters []sharing.Mounter
	reach    *reach
	keeper   *timelimit.Keeper
	trash    *rbd.Sweeper
	staged   string

	copyWait time.Duration
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.Namer        = (*Backend)(nil)
	_ backend.GroupNamer   = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Pool         = (*Backend)(nil)
	_ backend.ClassPool    = (*Backend)(nil)
	_ backend.Stager       = (*Backend)(nil)
	_ backend.Expander     = (*Backend)(nil)
	_ backend.NodeExpander = (*Backend)(nil)
	_ backend.Modifier     = (*Backend)(nil)
	_ backend.HealthReader = (*Backend)(nil)
	_ backend.Snapshotter  = (*Backend)(nil)
	_ backend.Surveyor     = (*Backend)(nil)
	_ backend.Cloner       = (*Backend)(nil)
	_ backend.Grouper      = (*Backend)(nil)
	_ backend.UsageReader  = (*Backend)(nil)
	_ backend.Recoverer    = (*Backend)(nil)
	_ backend.Checker      = (*Backend)(nil)
)

// New describes a backend. Nothing is made on disk before Recover.
func New(c Config) (*Backend, error) {
	if c.ConfDir == "" {
		c.ConfDir = DefaultConfDir
	}
	for what, dir := range map[string]string{"state directory": c.StateDir, "folder of cluster configurations": c.ConfDir} {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%s %q: give an absolute path", what, dir)
		}
	}
	if c.Tools == nil {
		c.Tools = command.NewRunner(command.Config{})
	}
	if c.Mappers == nil {
		c.Mappers = mapping.Mappers(c.Tools)
	}
	if c.Mounters == nil {
		c.Mounters = sharing.Mounters(c.Tools)
	}
	return &Backend{
		tools: c.Tools, mappers: c.Mappers, mounters: c.Mounters,
		reach:  newReach(c.ConfDir, filepath.Join(c.StateDir, "ceph", "places")),
		keeper: timelimit.NewKeeper(c.Grace), trash: &rbd.Sweeper{Every: c.SweepEvery},
		staged: filepath.Join(c.StateDir, "ceph", "staged"), copyWait: c.CopyWait,
	}, nil
}

// Check implements backend.Checker. It asks no cluster: there can be several,
// and one that is down is no reason to restart the driver.
func (b *Backend) Check(context.Context) error {
	for _, program := range []command.Program{command.RBD, command.Ceph} {
		if err := b.tools.Present(program); err != nil {
			return err
		}
	}
	return b.reach.check()
}

func (b *Backend) witness(p handle.Place) witness {
	return witness{tools: b.tools, reach: b.reach, place: p}
}

// pool is a pool as the user of a request may use it.
func (b *Backend) pool(ctx context.Context, p handle.Place) (rbd.Pool, error) {
	access, err := b.reach.access(ctx, p)
	return rbd.Pool{Tools: b.witness(p), Access: access, Place: p}, err
}

func (b *Backend) filesystem(ctx context.Context, p handle.Place) (cephfs.Filesystem, error) {
	access, err := b.reach.access(ctx, p)
	return cephfs.Filesystem{Tools: b.witness(p), Access: access, Place: p, Wait: b.copyWait}, err
}

// unsupported is the error for a feature that only images have.
func unsupported(what string) error {
	return fault.Invalid.Errorf(
		"%s: volumes of kind %s do not have this; use one of kind %s",
		what,
		handle.CephFS,
		handle.RBD,
	)
}
