package ceph

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/timelimit"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// This file has the operations on devices and mounts of this machine. When the cluster is
// unreachable, each of them can hang in the kernel for ever, where no signal and no context reaches
// it. So they run in goroutines, which are abandoned after a timeout.

const (
	// looking bounds read-only operations.
	looking = 10 * time.Second
	// changing bounds operations that take long for a large volume, such as mkfs or a check of a
	// filesystem. The caller's own timeout is usually shorter.
	changing = 30 * time.Minute
	// recovering bounds how long all volumes together delay the start.
	recovering = 30 * time.Second
)

// onNode runs an operation on this machine with a timeout.
func onNode[T any](
	ctx context.Context,
	b *Backend,
	id backend.ID,
	bound time.Duration,
	run func(context.Context) (T, error),
) (T, error) {
	work := timelimit.Work{
		Target: id.String(),
		Doing:  "the work on the device or mount of volume " + id.String(),
		Bound:  bound,
	}
	return timelimit.Do(ctx, b.keeper, work, run)
}

type nothing struct{}

func noAnswer(run func(context.Context) error) func(context.Context) (nothing, error) {
	return func(ctx context.Context) (nothing, error) { return nothing{}, run(ctx) }
}

// Stage implements backend.Stager.
func (b *Backend) Stage(ctx context.Context, s backend.Staging) error {
	_, err := onNode(ctx, b, s.Volume, changing, noAnswer(func(ctx context.Context) error { return b.stage(ctx, s) }))
	return err
}

// Unstage implements backend.Stager. It needs no cluster and no user.
func (b *Backend) Unstage(ctx context.Context, id backend.ID, path string) error {
	_, err := onNode(ctx, b, id, changing, noAnswer(func(ctx context.Context) error { return b.unstage(ctx, id, path) }))
	return err
}

// Staged implements backend.Stager. It asks the machine only.
func (b *Backend) Staged(ctx context.Context, id backend.ID, path string, access backend.AccessType) (string, error) {
	return onNode(
		ctx,
		b,
		id,
		looking,
		func(ctx context.Context) (string, error) { return b.lookStaged(ctx, id, path, access) },
	)
}

// NodeExpand implements backend.NodeExpander.
func (b *Backend) NodeExpand(ctx context.Context, e backend.NodeExpansion) (int64, error) {
	return onNode(ctx, b, e.Volume, changing, func(ctx context.Context) (int64, error) { return b.nodeExpand(ctx, e) })
}

// Usage implements backend.UsageReader.
func (b *Backend) Usage(ctx context.Context, id backend.ID, path string) ([]backend.Usage, error) {
	return onNode(ctx, b, id, looking, func(context.Context) ([]backend.Usage, error) { return usage(id, path) })
}

// Health implements backend.HealthReader: a volume that is staged here is looked at here, any other
// one in its cluster. A volume whose cluster does not answer the kernel is unhealthy.
func (b *Backend) Health(ctx context.Context, id backend.ID) (problem string, err error) {
	_, isStaged, err := b.readStaged(id)
	if err != nil {
		return "", err
	}
	if !isStaged {
		_, err := b.Get(ctx, id)
		return "", err
	}
	problem, err = onNode(
		ctx,
		b,
		id,
		looking,
		func(ctx context.Context) (string, error) { return b.stagedHealth(ctx, id) },
	)
	if fault.Away.Is(err) || fault.Busy.Is(err) {
		return err.Error(), nil
	}
	return problem, err
}

// Recover implements backend.Recoverer: it removes the devices and mounts of volumes that are no
// longer staged. Those that a pod can still use stay, since the daemons outlive the driver. One bad
// volume must not keep the driver from starting.
func (b *Backend) Recover(ctx context.Context) error {
	for _, dir := range []string{b.staged, b.reach.placesDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fault.Internal.Errorf("make the folders of the backend: %w", err)
		}
	}
	entries, err := os.ReadDir(b.staged)
	if err != nil {
		return fault.Internal.Errorf("list what is staged: %w", err)
	}
	var all sync.WaitGroup
	for _, entry := range entries {
		all.Go(func() { b.recoverPatiently(ctx, entry.Name()) })
	}
	all.Wait()
	return nil
}

func (b *Backend) recoverPatiently(ctx context.Context, name string) {
	work := timelimit.Work{Target: name, Doing: "looking at volume " + name, Bound: recovering}
	_, err := timelimit.Do(
		ctx,
		b.keeper,
		work,
		noAnswer(func(ctx context.Context) error { return b.recoverOne(ctx, name) }),
	)
	if err != nil {
		logr.FromContextOrDiscard(ctx).
			Error(err, "What was staged before the driver started could not be taken away; it is tried again when it is staged or unstaged", "volume", name)
	}
}
