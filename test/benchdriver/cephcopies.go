package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/rbd"
)

// cephCopyBytes is the size of the volumes that are copied in Ceph, of which the half is data. Images share it, subvolumes copy it.
const cephCopyBytes = 64 * mebi

// benchCephCopies measures snapshots and clones of an image and of a subvolume.
func (o options) benchCephCopies(ctx context.Context, dir string) (err error) {
	all, err := o.ceph.subjects(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	t := newTable(fmt.Sprintf("Copies in Ceph of %d MiB, the half of it data: by the driver, and by plain programs", cephCopyBytes/mebi),
		"volume", "step", "times", "p50", "longest", "programs p50", "longest", "ratio")
	defer func() { err = errors.Join(err, t.print(os.Stdout)) }()
	for i, s := range all {
		// How an image is formatted is nothing to a copy of it.
		if name := s.name + " copies"; s.fs == "xfs" || s.fs == "" && s.parameters["kind"] == "rbd" || !o.wants(name) {
			continue
		}
		if err := s.benchCephCopies(ctx, filepath.Join(dir, fmt.Sprint(i)), o, t); err != nil {
			return fmt.Errorf("copies of %s: %w", s.name, err)
		}
	}
	t.note("The ratio is the time of the programs divided by that of the driver. Programs: rbd snap create, rbd clone, rbd snap rm;\nceph fs subvolume snapshot create, snapshot clone, clone status until it is complete, snapshot rm.")
	return nil
}

func (s subject) benchCephCopies(ctx context.Context, dir string, o options, t *table) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	driver, stop, err := serve(ctx, s, dir)
	if err != nil {
		return err
	}
	var ours, theirs [2]times
	id, volumeContext, err := driver.create(ctx, "source", cephCopyBytes, nil)
	if err == nil {
		err = driver.stage(ctx, id, "source", volumeContext)
	}
	if err == nil {
		err = fill(filepath.Join(driver.path("source"), "data"), cephCopyBytes/2)
	}
	copier, failure := o.ceph.programs().copier(id)
	err = errors.Join(err, failure)
	sides := []func(turn int) error{
		func(turn int) error { return driver.copies(ctx, id, turn, &ours) },
		func(turn int) error { return copier.copies(ctx, turn, &theirs) },
	}
	for turn := range 2 * o.copies {
		// First, second, second, first: whoever comes second finds more in memory.
		if err == nil {
			err = sides[(turn+1)/2%2](turn)
		}
	}
	if err == nil {
		err = errors.Join(driver.leave(ctx, id, "source"), driver.remove(ctx, id))
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	for i, step := range []string{"snapshot", "clone"} {
		t.row(s.name, step, fmt.Sprint(o.copies), ours[i].quantile(0.5), ours[i].quantile(1),
			theirs[i].quantile(0.5), theirs[i].quantile(1), ratio(float64(theirs[i].at(0.5)), float64(ours[i].at(0.5))))
	}
	return nil
}

// copies makes a snapshot and a clone, and takes both away.
func (c calls) copies(ctx context.Context, source string, turn int, into *[2]times) error {
	var snapshot, clone string
	err := timed(&into[0], func() (err error) {
		snapshot, err = c.snapshot(ctx, fmt.Sprint("snapshot-", turn), source)
		return err
	})
	if err != nil {
		return err
	}
	err = timed(&into[1], func() (err error) {
		clone, err = c.clone(ctx, fmt.Sprint("clone-", turn), source)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(c.removeSnapshot(ctx, snapshot), c.remove(ctx, clone))
}

// clone asks again while the cluster copies, as a provisioner does.
func (c calls) clone(ctx context.Context, name, source string) (string, error) {
	from := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source}}}
	for {
		id, _, err := c.create(ctx, name, cephCopyBytes, from)
		if status.Code(err) != codes.Aborted || ctx.Err() != nil {
			return id, err
		}
	}
}

// cephCopier copies what the driver made.
type cephCopier struct {
	cephPrograms
	source handle.Object
}

func (p cephPrograms) copier(id string) (cephCopier, error) {
	o, err := handle.Parse(id)
	return cephCopier{cephPrograms: p, source: o}, err
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
	err := timed(&into[0], func() error { return c.all(ctx, []string{"rbd", "snap", "create", "--no-progress", snapshot}) })
	if err != nil {
		return err
	}
	err = timed(&into[1], func() error {
		return c.all(ctx, []string{"rbd", "snap", "create", "--no-progress", between}, []string{"rbd", "clone", "--rbd-default-clone-format=2", between, clone},
			[]string{"rbd", "snap", "rm", "--no-progress", between})
	})
	if err != nil {
		return err
	}
	return c.all(ctx, []string{"rbd", "snap", "rm", "--no-progress", snapshot}, []string{"rbd", "rm", "--no-progress", clone})
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
