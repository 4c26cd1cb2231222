// Package sharing mounts folders of CephFS, with the kernel's client or with
// ceph-fuse, whichever this machine has.
//
// It decides which of them is used, and with which options. It must not know volumes.
package sharing

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Tools runs programs; a command.Runner.
type Tools interface {
	Run(context.Context, command.Call) ([]byte, error)
	Present(command.Program) error
}

// Folder is a folder of CephFS and its mount point.
type Folder struct {
	// Filesystem is its name in the cluster, and Root the folder in it.
	Filesystem, Root string
	// Path is the mount point.
	Path string
	// Options are the user's. They may be sensitive and appear in no error.
	Options []string
}

// Mounter mounts folders.
type Mounter interface {
	// Name is used in errors and records.
	Name() string
	// Type is the filesystem type of such mounts in the mount table.
	Type() string
	// Usable says what is missing on this machine; nil when nothing is.
	Usable() error
	// Mount mounts a folder.
	Mount(ctx context.Context, f Folder, access command.Access) error
}

// Mounters returns all mounters, the best one first.
func Mounters(tools Tools) []Mounter {
	return []Mounter{&Kernel{Tools: tools, Filesystems: "/proc/filesystems"}, &Fuse{Tools: tools}}
}

// ErrNoMounter means that this machine cannot mount CephFS.
var ErrNoMounter = errors.New("this machine cannot mount CephFS")

// Choose returns the first mounter that is usable.
func Choose(mounters []Mounter) (Mounter, error) {
	var missing []string
	for _, mounter := range mounters {
		err := mounter.Usable()
		if err == nil {
			return mounter, nil
		}
		missing = append(missing, mounter.Name()+": "+err.Error())
	}
	return nil, fault.Unready.Errorf("%w; %s", ErrNoMounter, strings.Join(missing, "; "))
}

// Kernel mounts with the kernel's client.
type Kernel struct {
	Tools Tools
	// Filesystems is the kernel's list of filesystem types.
	Filesystems string
}

// Name implements Mounter.
func (k *Kernel) Name() string { return "kernel" }

// Type implements Mounter.
func (k *Kernel) Type() string { return "ceph" }

// Usable implements Mounter.
func (k *Kernel) Usable() error {
	content, err := os.ReadFile(k.Filesystems)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if strings.TrimSpace(strings.TrimPrefix(lines.Text(), "nodev")) == k.Type() {
			return k.Tools.Present(command.MountCeph)
		}
	}
	return errors.New("the kernel has no ceph (modprobe ceph)")
}

// Mount implements Mounter.
func (k *Kernel) Mount(ctx context.Context, f Folder, access command.Access) error {
	options := append([]string{command.MountOptions(access), "mds_namespace=" + f.Filesystem}, f.Options...)
	_, err := k.Tools.Run(ctx, command.Call{
		Program: command.MountCeph, Access: access, Target: f.Path,
		Arguments: []string{":" + f.Root, f.Path, "-o", strings.Join(options, ",")},
		Doing:     "mount.ceph " + f.Root + " at " + f.Path,
	})
	return err
}

// Fuse mounts with the daemon ceph-fuse, which lives on when the driver ends.
type Fuse struct{ Tools Tools }

// Name implements Mounter.
func (f *Fuse) Name() string { return "ceph-fuse" }

// Type implements Mounter.
func (f *Fuse) Type() string { return "fuse.ceph-fuse" }

// Usable implements Mounter.
func (f *Fuse) Usable() error {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return err
	}
	return f.Tools.Present(command.CephFuse)
}

// Mount implements Mounter.
func (f *Fuse) Mount(ctx context.Context, folder Folder, access command.Access) error {
	arguments := []string{folder.Path, "-r", folder.Root, "--client_mds_namespace=" + folder.Filesystem}
	if len(folder.Options) > 0 {
		arguments = append(arguments, "-o", strings.Join(folder.Options, ","))
	}
	_, err := f.Tools.Run(ctx, command.Call{
		Program: command.CephFuse, Access: access, Target: folder.Path, Arguments: arguments,
		Doing: "ceph-fuse " + folder.Root + " at " + folder.Path,
	})
	return err
}
