package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// cephPrograms are those of Ceph as a person has set them up.
type cephPrograms struct {
	cephOptions
	environment []string
}

// programs get the address of the cluster in their environment. A daemon has it as an argument too,
// which shows to which cluster it belongs.
func (o *cephOptions) programs() cephPrograms {
	return cephPrograms{
		cephOptions: *o,
		environment: append(os.Environ(), "CEPH_CONF="+o.confFile(), "CEPH_ARGS=--id="+o.user+" --keyfile="+o.keyFile),
	}
}

func (o *cephOptions) confFile() string { return filepath.Join(o.conf, o.cluster+".conf") }

func (p cephPrograms) run(ctx context.Context, program string, arguments ...string) (string, error) {
	output, err := commandIn(ctx, p.environment, program, arguments...)
	return firstLine(output), err
}

func (p cephPrograms) all(ctx context.Context, all ...[]string) error {
	for _, c := range all {
		if _, err := p.run(ctx, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// imageTools are rbd, and what makes a device in the way that the driver does here.
type imageTools struct {
	cephPrograms
	dir, fs, mapper string
}

func (i imageTools) image(name string) string { return i.pool + "/" + name }
func (i imageTools) at(name string) string    { return filepath.Join(i.dir, "at-"+name) }
func (i imageTools) shown(name string) string { return filepath.Join(i.dir, "shown-"+name) }

func (i imageTools) up(ctx context.Context, name string) error {
	if err := i.all(ctx, []string{"rbd", "create", i.image(name), "--size=" + strconv.Itoa(volumeBytes/mebi)},
		[]string{"mkdir", i.at(name)}); err != nil {
		return err
	}
	device, err := i.device(ctx, name)
	if err != nil || i.fs == "" {
		return errors.Join(err, os.WriteFile(i.at(name)+"/device", []byte(device), 0o600))
	}
	options := "defaults"
	if i.fs == "xfs" {
		options = "nouuid"
	}
	return commands(
		ctx,
		append(slices.Clone(makers[i.fs]), device),
		[]string{"mount", "-t", i.fs, "-o", options, device, i.at(name)},
	)
}

func (i imageTools) device(ctx context.Context, name string) (string, error) {
	switch i.mapper {
	case "krbd":
		return i.run(ctx, "rbd", "device", "map", i.image(name))
	case "rbd-nbd":
		return i.run(ctx, "rbd-nbd", "map", i.image(name))
	}
	err := i.all(ctx, []string{"mkdir", i.shown(name)},
		[]string{"rbd-fuse", "-c", i.confFile(), "-p", i.pool, "-r", name, i.shown(name)})
	if err != nil {
		return "", err
	}
	return command(ctx, "losetup", "--find", "--show", filepath.Join(i.shown(name), name))
}

func (i imageTools) down(ctx context.Context, name string) error {
	device, err := loopTools{dir: i.dir, fs: i.fs}.device(ctx, name)
	if err != nil {
		return err
	}
	if i.fs != "" {
		if err := commands(ctx, []string{"umount", i.at(name)}); err != nil {
			return err
		}
	}
	var detach [][]string
	switch i.mapper {
	case "krbd":
		detach = [][]string{{"rbd", "device", "unmap", device}}
	case "rbd-nbd":
		detach = [][]string{{"rbd-nbd", "unmap", device}}
	default:
		// The daemon closes the image some time after the unmount has ended.
		detach = [][]string{{"losetup", "--detach", device}, {"umount", i.shown(name)}, {"rmdir", i.shown(name)}}
	}
	if err := i.all(ctx, append(detach, []string{"rm", "-r", i.at(name)})...); err != nil {
		return err
	}
	return i.patiently(ctx, "rbd", "rm", "--no-progress", i.image(name))
}

// patiently repeats what a person types again: while an image is still open, it is not removed.
func (p cephPrograms) patiently(ctx context.Context, program string, arguments ...string) error {
	const most = 20
	var err error
	for range most {
		if _, err = p.run(ctx, program, arguments...); err == nil {
			return nil
		}
	}
	return err
}

// subvolumeTools are ceph and ceph-fuse.
type subvolumeTools struct {
	cephPrograms
	dir string
}

func (s subvolumeTools) at(name string) string { return filepath.Join(s.dir, "at-"+name) }

func (s subvolumeTools) up(ctx context.Context, name string) error {
	if _, err := s.run(ctx, "ceph", "fs", "subvolume", "create", s.fsName, name, strconv.Itoa(volumeBytes)); err != nil {
		return err
	}
	root, err := s.run(ctx, "ceph", "fs", "subvolume", "getpath", s.fsName, name)
	if err != nil {
		return err
	}
	return s.all(
		ctx,
		[]string{"mkdir", s.at(name)},
		[]string{"ceph-fuse", "--conf=" + s.confFile(), "--client_fs=" + s.fsName, "-r", root, s.at(name)},
	)
}

func (s subvolumeTools) down(ctx context.Context, name string) error {
	return s.all(
		ctx,
		[]string{"umount", s.at(name)},
		[]string{"rmdir", s.at(name)},
		[]string{"ceph", "fs", "subvolume", "rm", s.fsName, name},
	)
}
