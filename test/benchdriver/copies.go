package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sizes are those of the volumes that are copied, of which the half is data.
var sizes = []int64{64 * mebi, 1024 * mebi}

// benchCopies measures snapshots and clones of an ext4 in use, on pools that can share space
// between files and on one that may not.
func (o options) benchCopies(ctx context.Context, dir string) (err error) {
	if !o.wants("copies") {
		return nil
	}
	t := newTable("Copies of an ext4 in use, the half of it data: by the driver, and by plain programs",
		"pool", "volume", "step", "times", "p50", "longest", "programs p50", "longest", "ratio")
	defer func() { err = errors.Join(err, t.print(os.Stdout)) }()
	for fs := range strings.SplitSeq(o.pools, ",") {
		at := filepath.Join(dir, "pool-"+fs)
		if err := makePool(ctx, fs, at); err != nil {
			t.note("pool %s: skipped: %v", fs, err)
			continue
		}
		for _, bytes := range sizes {
			c := copying{
				subject: subject{name: "loopfile ext4", fs: "ext4", access: mounted("ext4"), backend: newLoopfile},
				dir:     filepath.Join(at, fmt.Sprint(bytes/mebi)), bytes: bytes, times: o.copies,
			}
			c.programs = func(driver calls, id string) (copies, error) {
				return imageCopier{
					image: filepath.Join(
						c.dir,
						"state",
						"volumes",
						id,
						"image",
					), mountedAt: driver.path("source"), to: filepath.Join(c.dir, "copy"),
				}.copies, nil
			}
			if err := c.bench(ctx, t, fs, fmt.Sprintf("%d MiB", bytes/mebi)); err != nil {
				return fmt.Errorf("copies on %s: %w", fs, err)
			}
		}
	}
	t.note(
		"The ratio is the time of the programs divided by that of the driver. Programs: fsfreeze, cp --reflink=auto --sparse=always, fsfreeze, sync;\nand tune2fs -U for a clone. Both sync the copy.",
	)
	return nil
}

const poolBytes = 12 << 30

// makePool makes a filesystem in a sparse image, or for "host" a folder.
func makePool(ctx context.Context, fs, at string) error {
	if err := os.MkdirAll(at, 0o750); err != nil || fs == "host" {
		return err
	}
	maker, known := makers[fs]
	if !known {
		return fmt.Errorf("%q: not host, ext4, xfs or btrfs", fs)
	}
	image := at + ".img"
	return commands(
		ctx,
		[]string{"truncate", "-s", fmt.Sprint(poolBytes), image},
		append(slices.Clone(maker), image),
		[]string{"mount", "-o", "loop", image, at},
	)
}

// copies makes a snapshot and a clone of a volume, which it times, and takes both away.
type copies func(ctx context.Context, turn int, into *[2]times) error

// copying is a volume, the half of it data, that is copied some times: by the driver and by plain
// programs in turn.
type copying struct {
	subject
	dir   string
	bytes int64
	times int
	// programs copies what the driver has made.
	programs func(driver calls, id string) (copies, error)
}

// bench adds a row for each kind of copy, which begins with the columns.
func (c copying) bench(ctx context.Context, t *table, columns ...string) error {
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return err
	}
	driver, stop, err := serve(ctx, c.subject, c.dir)
	if err != nil {
		return err
	}
	var ours, theirs [2]times
	err = errors.Join(c.play(ctx, driver, &ours, &theirs), stop())
	if err != nil {
		return err
	}
	for i, step := range []string{"snapshot", "clone"} {
		t.row(append(slices.Clone(columns), step, fmt.Sprint(c.times), ours[i].quantile(0.5), ours[i].quantile(1),
			theirs[i].quantile(0.5), theirs[i].quantile(1), ratio(float64(theirs[i].at(0.5)), float64(ours[i].at(0.5))))...)
	}
	return nil
}

func (c copying) play(ctx context.Context, driver calls, ours, theirs *[2]times) error {
	id, err := driver.create(ctx, "source", c.bytes, nil)
	if err == nil {
		err = driver.stage(ctx, id, "source")
	}
	if err == nil {
		err = fill(filepath.Join(driver.path("source"), "data"), c.bytes/2)
	}
	if err != nil {
		return err
	}
	programs, err := c.programs(driver, id)
	for turn := range 2 * c.times {
		if err != nil {
			return err
		}
		// First, second, second, first: the second finds more in memory.
		if (turn+1)/2%2 == 0 {
			err = driver.copies(ctx, id, turn, c.bytes, ours)
		} else {
			err = programs(ctx, turn, theirs)
		}
	}
	return errors.Join(err, driver.leave(ctx, id, "source"), driver.remove(ctx, id))
}

// fill writes what no filesystem can take for a hole.
func fill(path string, bytes int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, mebi)
	for at := int64(0); at < bytes && err == nil; at += int64(len(block)) {
		for i := range block {
			block[i] = byte(int64(i)*31 + at>>20)
		}
		_, err = file.Write(block)
	}
	return errors.Join(err, file.Sync(), file.Close())
}

func timed(into *times, do func() error) error {
	began := time.Now()
	err := do()
	took := time.Since(began)
	into.add(took, []time.Duration{took})
	return err
}

// copies makes a snapshot and a clone, and takes both away.
func (c calls) copies(ctx context.Context, source string, turn int, bytes int64, into *[2]times) error {
	var snapshot, clone string
	err := timed(&into[0], func() (err error) {
		snapshot, err = c.snapshot(ctx, fmt.Sprint("snapshot-", turn), source)
		return err
	})
	if err != nil {
		return err
	}
	err = timed(&into[1], func() (err error) {
		clone, err = c.clone(ctx, fmt.Sprint("clone-", turn), source, bytes)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(c.removeSnapshot(ctx, snapshot), c.remove(ctx, clone))
}

// clone asks again while a copy is being made, as a provisioner does.
func (c calls) clone(ctx context.Context, name, source string, bytes int64) (string, error) {
	from := &csi.VolumeContentSource{
		Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source}},
	}
	for {
		id, err := c.create(ctx, name, bytes, from)
		if status.Code(err) != codes.Aborted || ctx.Err() != nil {
			return id, err
		}
	}
}

// imageCopier copies the image of the driver's volume itself, so that both have the same work.
type imageCopier struct{ image, mountedAt, to string }

func (c imageCopier) copies(ctx context.Context, _ int, into *[2]times) error {
	for i, further := range [][][]string{nil, {{"tune2fs", "-U", "random"}}} {
		err := timed(&into[i], func() error {
			all := [][]string{
				{
					"fsfreeze",
					"--freeze",
					c.mountedAt,
				}, {"cp", "--reflink=auto", "--sparse=always", c.image, c.to}, {"fsfreeze", "--unfreeze", c.mountedAt},
			}
			for _, more := range further {
				all = append(all, append(more, c.to))
			}
			return commands(ctx, append(all, []string{"sync", c.to})...)
		})
		if err != nil {
			return errors.Join(err, commands(context.WithoutCancel(ctx), []string{"fsfreeze", "--unfreeze", c.mountedAt}))
		}
		if err := os.Remove(c.to); err != nil {
			return err
		}
	}
	return nil
}
