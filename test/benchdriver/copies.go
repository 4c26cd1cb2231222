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
)

// sizes are those of the volumes that are copied, of which the half is data.
var sizes = []int64{64 * mebi, 1024 * mebi}

// benchCopies measures snapshots and clones of an ext4 in use, on pools that can share space between files and on one that may not.
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
			c := copying{dir: filepath.Join(at, fmt.Sprint(bytes/mebi)), bytes: bytes, times: o.copies}
			if err := c.bench(ctx, fs, t); err != nil {
				return fmt.Errorf("copies on %s: %w", fs, err)
			}
		}
	}
	t.note("The ratio is the time of the programs divided by that of the driver. Programs: fsfreeze, cp --reflink=auto --sparse=always, fsfreeze, sync;\nand tune2fs -U for a clone. Both sync the copy.")
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
	return commands(ctx, []string{"truncate", "-s", fmt.Sprint(poolBytes), image}, append(slices.Clone(maker), image), []string{"mount", "-o", "loop", image, at})
}

// copying is a volume that is copied some times.
type copying struct {
	dir   string
	bytes int64
	times int
}

func (c copying) bench(ctx context.Context, pool string, t *table) error {
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return err
	}
	driver, stop, err := serve(ctx, subject{name: "loopfile ext4", fs: "ext4", access: mounted("ext4"), backend: newLoopfile}, c.dir)
	if err != nil {
		return err
	}
	var ours, theirs [2]times
	id, volumeContext, err := driver.create(ctx, "source", c.bytes, nil)
	if err == nil {
		err = driver.stage(ctx, id, "source", volumeContext)
	}
	if err == nil {
		err = fill(filepath.Join(driver.path("source"), "data"), c.bytes/2)
	}
	sides := []func(turn int) error{
		func(turn int) error { return c.byDriver(ctx, driver, id, turn, &ours) },
		func(int) error { return c.byPrograms(ctx, driver, id, &theirs) },
	}
	for turn := range 2 * c.times {
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
		t.row(pool, fmt.Sprintf("%d MiB", c.bytes/mebi), step, fmt.Sprint(c.times), ours[i].quantile(0.5), ours[i].quantile(1),
			theirs[i].quantile(0.5), theirs[i].quantile(1), ratio(float64(theirs[i].at(0.5)), float64(ours[i].at(0.5))))
	}
	return nil
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

func (c copying) byDriver(ctx context.Context, driver calls, source string, turn int, into *[2]times) error {
	var snapshot, clone string
	err := timed(&into[0], func() (err error) {
		snapshot, err = driver.snapshot(ctx, fmt.Sprint("snapshot-", turn), source)
		return err
	})
	if err != nil {
		return err
	}
	err = timed(&into[1], func() (err error) {
		clone, _, err = driver.create(ctx, fmt.Sprint("clone-", turn), c.bytes, &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: source},
		}})
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(driver.removeSnapshot(ctx, snapshot), driver.remove(ctx, clone))
}

// byPrograms copies the same image, so that both have the same work.
func (c copying) byPrograms(ctx context.Context, driver calls, source string, into *[2]times) error {
	image, at := filepath.Join(c.dir, "state", "volumes", source, "image"), driver.path("source")
	for i, further := range [][][]string{nil, {{"tune2fs", "-U", "random"}}} {
		to := filepath.Join(c.dir, "copy")
		err := timed(&into[i], func() error {
			all := [][]string{
				{"fsfreeze", "--freeze", at}, {"cp", "--reflink=auto", "--sparse=always", image, to}, {"fsfreeze", "--unfreeze", at},
			}
			for _, more := range further {
				all = append(all, append(more, to))
			}
			return commands(ctx, append(all, []string{"sync", to})...)
		})
		if err != nil {
			return errors.Join(err, commands(context.WithoutCancel(ctx), []string{"fsfreeze", "--unfreeze", at}))
		}
		if err := os.Remove(to); err != nil {
			return err
		}
	}
	return nil
}
