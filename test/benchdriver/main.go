package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/exitcode"
)

func main() { os.Exit(run()) }

// options are the flags.
type options struct {
	dir, only, pools string
	volumes, copies  int
	patience         time.Duration
}

func parse() (o options, err error) {
	flag.StringVar(
		&o.dir,
		"dir",
		"",
		"`folder` to work in, which decides what disk is measured; empty for the system's temporary one",
	)
	flag.StringVar(&o.only, "only", "", "part of the `name` of the subjects to measure, such as ext4; empty for all")
	flag.StringVar(
		&o.pools,
		"pools",
		"host,xfs,btrfs",
		"`filesystems` that copies are made on: host is that of the folder, the others are made for it",
	)
	flag.IntVar(&o.volumes, "volumes", 32, "volumes for each row with one call in flight; twice as many with 16")
	flag.IntVar(&o.copies, "copies", 5, "snapshots and clones for each row")
	flag.DurationVar(&o.patience, "timeout", 20*time.Minute, "for the whole run")
	flag.Parse()
	if o.volumes < 1 || o.copies < 1 || flag.NArg() > 0 {
		return o, errors.New("-volumes and -copies must be at least 1, and there are no arguments")
	}
	return o, nil
}

func run() int {
	o, err := parse()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchdriver:", err)
		return 2
	}
	return exitcode.Run("benchdriver", o.patience, o.bench)
}

func (o options) bench(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(o.dir, "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tidy(context.WithoutCancel(ctx), dir)) }()
	if err := mayBench(dir); err != nil {
		fmt.Println("skipped:", err)
		return nil
	}
	if err := o.benchVolumes(ctx, dir); err != nil {
		return err
	}
	return o.benchCopies(ctx, dir)
}

// mayBench says what this machine lacks for any row.
func mayBench(dir string) error {
	if err := loopfile.Usable(filepath.Join(dir, "usable")); err != nil {
		return err
	}
	for _, program := range []string{"truncate", "losetup", "mount", "umount", "cp", "sync", "fsfreeze", "tune2fs"} {
		if err := present(program); err != nil {
			return err
		}
	}
	return nil
}

// tidy leaves no mount and no loop device behind, however the run ended: removing a folder with
// mounts would empty them.
func tidy(ctx context.Context, dir string) error {
	if _, err := mount.CleanBelow(dir); err != nil {
		return err
	}
	// What the driver of a run that failed still holds goes with this process.
	_, _ = loopfile.DetachBelow(ctx, dir)
	return os.RemoveAll(dir)
}

func (o options) wants(name string) bool { return strings.Contains(name, o.only) }
