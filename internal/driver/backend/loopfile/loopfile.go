package loopfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/loopdev"
)

// The defaults of Config.
const (
	// DefaultOverCommit is how many times the size of the pool the sum of all volume sizes may be:
	// most volumes stay nearly empty.
	DefaultOverCommit = 20
	// DefaultMaxVolumes is far below what the kernel can do; each mounted
	// volume takes about a megabyte of its memory.
	DefaultMaxVolumes = 4096
	// DefaultFreezeBound is how long a pod's writes may wait for a snapshot.
	DefaultFreezeBound = 30 * time.Second
)

// Config is what a loop-file backend needs. A zero takes the default.
type Config struct {
	// StateDir is the absolute path of a folder that belongs to the driver.
	// The filesystem that it lies on is the pool.
	StateDir string
	// OverCommit is how many times the space of the pool may be promised to volumes.
	OverCommit float64
	// MaxVolumes is how many may be staged at once.
	MaxVolumes int64
	// FreezeBound is how long a filesystem may be kept from writing while a
	// snapshot is made of it.
	FreezeBound time.Duration
}

// Backend keeps volumes in image files.
type Backend struct {
	config Config

	volumes, snapshots, groups, staged, frozen, temp, trash string

	locks    volumeLocks
	promises Promises
	space    FreeSpace
	// measured is when the space of the images was last measured.
	measuredLock sync.Mutex
	measured     time.Time

	devicesLock sync.Mutex
	devices     map[backend.ID]*loopdev.Device

	freezes freezes
	slow    slow
	tasks   *Runner
	reserve *reserve.Reserve
}

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.Lister        = (*Backend)(nil)
	_ backend.Pool          = (*Backend)(nil)
	_ backend.Sized         = (*Backend)(nil)
	_ backend.Stager        = (*Backend)(nil)
	_ backend.Snapshotter   = (*Backend)(nil)
	_ backend.Grouper       = (*Backend)(nil)
	_ backend.Surveyor      = (*Backend)(nil)
	_ backend.Expander      = (*Backend)(nil)
	_ backend.NodeExpander  = (*Backend)(nil)
	_ backend.UsageReader   = (*Backend)(nil)
	_ backend.Recoverer     = (*Backend)(nil)
	_ backend.Checker       = (*Backend)(nil)
	_ backend.Closer        = (*Backend)(nil)
	_ backend.HealthReader  = (*Backend)(nil)
	_ backend.Modifier      = (*Backend)(nil)
	_ backend.Limited       = (*Backend)(nil)
	_ backend.Particular    = (*Backend)(nil)
	_ backend.Reserved      = (*Backend)(nil)
	_ backend.Promiser      = (*Backend)(nil)
	_ backend.StagingReader = (*Backend)(nil)
)

// New describes a backend. Nothing is made on disk before Recover.
func New(config Config) (*Backend, error) {
	if !filepath.IsAbs(config.StateDir) {
		return nil, fmt.Errorf("state directory %q: give an absolute path", config.StateDir)
	}
	if config.OverCommit == 0 {
		config.OverCommit = DefaultOverCommit
	}
	if config.MaxVolumes == 0 {
		config.MaxVolumes = DefaultMaxVolumes
	}
	if config.FreezeBound == 0 {
		config.FreezeBound = DefaultFreezeBound
	}
	if config.OverCommit < 0 || config.MaxVolumes < 0 || config.FreezeBound < 0 {
		return nil, fmt.Errorf(
			"over-commit limit %g, most volumes %d, bound of a freeze %s: give numbers above 0",
			config.OverCommit,
			config.MaxVolumes,
			config.FreezeBound,
		)
	}
	in := func(name string) string { return filepath.Join(config.StateDir, name) }
	b := &Backend{
		config:  config,
		volumes: in("volumes"), snapshots: in("snapshots"), groups: in("groups"), staged: in("staged"),
		frozen: in("frozen"), temp: in("temp"), trash: in("trash"),
		devices: map[backend.ID]*loopdev.Device{},
		freezes: freezes{lasting: map[*freeze]struct{}{}},
		slow:    slow{failed: map[backend.ID]time.Time{}},
		tasks:   NewRunner(),
		reserve: reserve.New(config.StateDir),
	}
	b.space.Look = b.disk
	return b, nil
}

func (b *Backend) folders() []string {
	return []string{b.volumes, b.snapshots, b.groups, b.staged, b.frozen, b.temp, b.trash}
}

// MaxVolumesPerNode implements backend.Limited.
func (b *Backend) MaxVolumesPerNode() int64 { return b.config.MaxVolumes }

// Reserve implements backend.Reserved.
func (b *Backend) Reserve() *reserve.Reserve { return b.reserve }

func (b *Backend) volumeDir(id backend.ID) string { return filepath.Join(b.volumes, id.String()) }
func (b *Backend) imageOf(id backend.ID) string   { return filepath.Join(b.volumeDir(id), imageFile) }

// classify is [classify] for programs and mounts that write through a loop device: in a full pool
// these get an I/O error, which does not say why.
func (b *Backend) classify(doing string, err error) error {
	err = classify(doing, err)
	if err != nil && fault.KindOf(err) == fault.Internal && b.reserve.IsLow() {
		return fault.Exhausted.Errorf(
			"%w; the pool is full (%w): free some space where the state directory is", err, unix.ENOSPC,
		)
	}
	return err
}

// classify gives an error the kind that callers react to. One that has a kind
// keeps it.
func classify(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.KindOf(err) != fault.Internal:
		return fault.KindOf(err).Errorf("%s: %w", doing, err)
	case reserve.IsFull(err),
		strings.Contains(err.Error(), "No space left on device"):
		return fault.Exhausted.Errorf("%s: %w; free some space where the state directory is", doing, err)
	case errors.Is(err, unix.EFBIG):
		return fault.OutOfRange.Errorf(
			"%s: %w: the filesystem of the state directory cannot hold a file of this size",
			doing,
			err,
		)
	default:
		return fault.Internal.Errorf("%s: %w", doing, err)
	}
}
