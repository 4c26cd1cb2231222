package cephfs

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

// createFrom starts a copy, unless an earlier call did, and waits a while for
// it.
func (f Filesystem) createFrom(ctx context.Context, b Blueprint) error {
	state, err := f.cloneState(ctx, b.Object)
	if isMissing(err) {
		if err := f.startClone(ctx, b); err != nil {
			return err
		}
		state, err = f.cloneState(ctx, b.Object)
	}
	// A small copy is done within one call.
	for began := time.Now(); err == nil && isCopying(state) && time.Since(began) < f.wait(); {
		select {
		case <-ctx.Done():
			return copying(state)
		case <-time.After(askAgainAfter):
			state, err = f.cloneState(ctx, b.Object)
		}
	}
	if err != nil {
		return err
	}
	switch state {
	case "complete":
		return f.finishClone(ctx, b)
	case "failed", "canceled":
		if err := f.remove(ctx, b.Object, "--force"); err != nil {
			return err
		}
		return fault.Busy.Errorf(
			"the cluster's copy for the new volume has %s; it is removed, try again (`ceph -s` and the log of the manager say why)",
			state,
		)
	default:
		return copying(state)
	}
}

// DefaultWait is how long a call waits for a copy. Callers usually have a timeout of less than
// twice that, and the copy goes on between their retries.
const (
	DefaultWait   = 8 * time.Second
	askAgainAfter = 250 * time.Millisecond
)

func isCopying(state string) bool { return state == "pending" || state == "in-progress" }

func copying(state string) error {
	return fault.Busy.Errorf(
		"the cluster copies the content for the new volume (state %s); CephFS copies every file, so this takes as long as the data is large; try again",
		state,
	)
}

// cloneState asks how far a copy is; fault.NotFound when there is none. What
// was made otherwise has no state of a copy: it is complete.
func (f Filesystem) cloneState(ctx context.Context, o handle.Object) (string, error) {
	var answer struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	err := f.ask(ctx, &answer, "clone", "status", f.Place.Pool, o.Name, groupArg)
	if errors.Is(err, unix.EOPNOTSUPP) { // a deleted volume, or no clone
		return "", fault.NotFound.Errorf("%w", unix.ENOENT)
	}
	return answer.Status.State, err
}

// origin is the snapshot that a volume begins with.
func (f Filesystem) origin(b Blueprint) (source handle.Object, snap string, err error) {
	if id := b.Request.Source.Volume; id.String() != "" {
		source, err = handle.Of(id)
		snap = cloneSnap(b.Object)
	} else {
		source, err = handle.Of(b.Request.Source.Snapshot)
		snap = source.Snap
	}
	if err == nil && source.Place != f.Place {
		err = fault.Invalid.Errorf(
			"volume_content_source: it is in %s and the new volume would be in %s; use a class for the same filesystem",
			source.Place,
			f.Place,
		)
	}
	return source, snap, err
}

func (f Filesystem) startClone(ctx context.Context, b Blueprint) error {
	source, snap, err := f.origin(b)
	if err != nil {
		return err
	}
	if isCloneSnap(snap) {
		if _, err := f.snapshot(ctx, "create", source, snap); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	options := []string{"--target_group_name=" + group}
	if b.DataPool != "" {
		options = append(options, "--pool_layout="+b.DataPool)
	}
	arguments := append(
		[]string{"subvolume", "snapshot", "clone", f.Place.Pool, source.Name, snap, b.Object.Name, groupArg},
		options...)
	_, err = f.run(ctx, arguments...)
	return err
}

// finishClone gives a copy its size, and removes the snapshot that was made
// for it. The next call does both again when one of them fails.
func (f Filesystem) finishClone(ctx context.Context, b Blueprint) error {
	return parallel.Do(
		func() error { _, err := f.Expand(ctx, b.Object, b.Bytes); return err },
		func() error { return f.removeOrigin(ctx, b) },
	)
}

// removeOrigin leaves a snapshot that was not made for the copy.
func (f Filesystem) removeOrigin(ctx context.Context, b Blueprint) error {
	source, snap, err := f.origin(b)
	if err != nil || !isCloneSnap(snap) {
		return err
	}
	if _, err := f.snapshot(ctx, "rm", source, snap); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

// cancelClone stops the copy into a volume that is being deleted.
func (f Filesystem) cancelClone(ctx context.Context, o handle.Object) error {
	if _, err := f.run(ctx, "clone", "cancel", f.Place.Pool, o.Name, groupArg); err != nil &&
		!errors.Is(err, unix.EINVAL) {
		return err
	}
	return f.remove(ctx, o, "--force")
}

// cloneSnap is the name of the snapshot that a volume is copied from.
func cloneSnap(target handle.Object) string {
	id, _ := target.ID()
	return "c" + handle.Snapshot(target, id.String()).Snap[1:]
}

func isCloneSnap(name string) bool {
	return strings.HasPrefix(name, "c") && handle.IsSnap("s"+strings.TrimPrefix(name, "c"))
}

// removeCloneSnaps removes what interrupted copies from a volume left.
func (f Filesystem) removeCloneSnaps(ctx context.Context, o handle.Object) error {
	names, err := f.snapshotNames(ctx, o)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isCloneSnap(name) {
			continue
		}
		_, err := f.snapshot(ctx, "rm", o, name)
		if errors.Is(err, unix.EAGAIN) {
			return fault.InUse.Errorf("the volume is being copied; delete it when the copy is complete: %w", err)
		}
		if err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}
