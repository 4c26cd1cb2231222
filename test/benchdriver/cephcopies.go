package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
)

// cephSizes are those of the volumes that are copied in Ceph, of which the half is data. Images
// share it, subvolumes copy it.
var cephSizes = []int64{64 * mebi, 256 * mebi}

// benchCephCopies measures snapshots and clones of an image and of a subvolume.
func (o options) benchCephCopies(ctx context.Context, dir string) (err error) {
	all, err := o.ceph.subjects(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	t := newTable("Copies in Ceph, the half of it data: by the driver, and by plain programs",
		"kind", "volume", "step", "times", "p50", "longest", "programs p50", "longest", "ratio")
	defer func() { err = errors.Join(err, t.print(os.Stdout)) }()
	for i, s := range all {
		// How an image is formatted is nothing to a copy of it.
		if name := s.name + " copies"; s.fs == "xfs" || s.fs == "" && s.parameters["kind"] == "rbd" || !o.wants(name) {
			continue
		}
		for _, bytes := range cephSizes {
			size := fmt.Sprintf("%d MiB", bytes/mebi)
			c := copying{subject: s, dir: filepath.Join(dir, fmt.Sprint(i, "-", bytes/mebi)), bytes: bytes, times: o.copies}
			c.programs = func(_ calls, id string) (copies, error) { return o.ceph.programs().copier(id) }
			if err := c.bench(ctx, t, s.name, size); err != nil {
				return fmt.Errorf("copies of %s of %s: %w", s.name, size, err)
			}
		}
	}
	t.note(
		"The ratio is the time of the programs divided by that of the driver. Programs: rbd snap create, rbd clone, rbd snap rm;\nceph fs subvolume snapshot create, snapshot clone, clone status until it is complete, snapshot rm.",
	)
	return nil
}

// cephCopier copies what the driver made.
type cephCopier struct {
	cephPrograms
	source handle.Object
}

func (p cephPrograms) copier(id string) (copies, error) {
	o, err := handle.Parse(id)
	return cephCopier{cephPrograms: p, source: o}.copies, err
}

func (c cephCopier) copies(ctx context.Context, turn int, into *[2]times) error {
	snapshot, between, clone := fmt.Sprint("t", turn), fmt.Sprint("u", turn), fmt.Sprint("tools-", turn)
	if c.source.Kind == handle.CephFS {
		return c.copySubvolume(ctx, into, snapshot, between, clone)
	}
	return c.copyImage(ctx, into, snapshot, between, clone)
}

func (c cephCopier) copyImage(ctx context.Context, into *[2]times, snapshot, between, clone string) error {
	image := c.pool + "/" + rbd.ImageName(c.source)
	snapshot, between, clone = image+"@"+snapshot, image+"@"+between, c.pool+"/"+clone
	err := timed(
		&into[0],
		func() error { return c.all(ctx, []string{"rbd", "snap", "create", "--no-progress", snapshot}) },
	)
	if err != nil {
		return err
	}
	err = timed(&into[1], func() error {
		return c.all(
			ctx,
			[]string{"rbd", "snap", "create", "--no-progress", between},
			[]string{"rbd", "clone", "--rbd-default-clone-format=2", between, clone},
			[]string{"rbd", "snap", "rm", "--no-progress", between},
		)
	})
	if err != nil {
		return err
	}
	return c.all(
		ctx,
		[]string{"rbd", "snap", "rm", "--no-progress", snapshot},
		[]string{"rbd", "rm", "--no-progress", clone},
	)
}

// group is where the driver has its subvolumes.
const group = "purser"

func (c cephCopier) copySubvolume(ctx context.Context, into *[2]times, snapshot, between, clone string) error {
	snapshots := func(verb, name string, more ...string) []string {
		return append([]string{"ceph", "fs", "subvolume", "snapshot", verb, c.fsName, c.source.Name, name}, more...)
	}
	err := timed(&into[0], func() error { return c.all(ctx, snapshots("create", snapshot, group)) })
	if err != nil {
		return err
	}
	err = timed(&into[1], func() error {
		err := c.all(ctx, snapshots("create", between, group), snapshots("clone", between, clone, "--group_name="+group))
		if err == nil {
			err = c.isCopied(ctx, clone)
		}
		return errors.Join(err, c.all(ctx, snapshots("rm", between, group)))
	})
	if err != nil {
		return err
	}
	return c.all(ctx, snapshots("rm", snapshot, group), []string{"ceph", "fs", "subvolume", "rm", c.fsName, clone})
}

// isCopied asks until it is.
func (c cephCopier) isCopied(ctx context.Context, clone string) error {
	for {
		out, err := commandIn(ctx, c.environment, "ceph", "fs", "clone", "status", c.fsName, clone)
		if err != nil || strings.Contains(out, `"state": "complete"`) {
			return err
		}
		if strings.Contains(out, `"state": "failed"`) {
			return fmt.Errorf("the cluster's copy has failed: %s", out)
		}
	}
}
