package sharing_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/sharing"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

var (
	access = command.Access{Cluster: "ceph", Conf: "/ceph.conf", User: "csi", Key: command.NewKey("secret")}
	folder = sharing.Folder{Filesystem: "fs", Root: "/volumes/purser/a", Path: "/staging", Options: []string{"noatime", "password=x"}}
)

func play(t *testing.T, script ...faketool.Step) (*command.Runner, *faketool.Tools) {
	t.Helper()
	tools := faketool.New(t, script...)
	return command.NewRunner(command.Config{LookPath: tools.LookPath, Environment: tools.Environment()}), tools
}

func kernelWith(t *testing.T, tools sharing.Tools, types string) *sharing.Kernel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "filesystems")
	if err := os.WriteFile(path, []byte(types), 0o600); err != nil {
		t.Fatal(err)
	}
	return &sharing.Kernel{Tools: tools, Filesystems: path}
}

func TestTheKernelsClientIsPreferred(t *testing.T) {
	tools, _ := play(t)
	for types, want := range map[string]bool{"nodev\tceph\n": true, "\text4\nnodev\tceph\n": true, "nodev\tcephalopod\n": false, "": false} {
		if err := kernelWith(t, tools, types).Usable(); (err == nil) != want {
			t.Errorf("%q: %v", types, err)
		}
	}
	if mounter, err := sharing.Choose([]sharing.Mounter{kernelWith(t, tools, "nodev\tceph\n"), &sharing.Fuse{Tools: tools}}); err != nil || mounter.Name() != "kernel" {
		t.Errorf("Choose = %v, %v", mounter, err)
	}
}

func TestErrorNamesWhatEachMethodLacks(t *testing.T) {
	tools, played := play(t)
	played.Remove("ceph-fuse")
	_, err := sharing.Choose([]sharing.Mounter{kernelWith(t, tools, ""), &sharing.Fuse{Tools: tools}})
	if !fault.Unready.Is(err) || !errors.Is(err, sharing.ErrNoMounter) || !strings.Contains(err.Error(), "modprobe ceph") || !strings.Contains(err.Error(), "ceph-fuse: ") {
		t.Errorf("Choose: %v", err)
	}
}

func TestHowFoldersAreMounted(t *testing.T) {
	tools, played := play(t, faketool.Step{Begins: "mount.ceph"}, faketool.Step{Begins: "ceph-fuse"})
	for _, mounter := range []sharing.Mounter{kernelWith(t, tools, "nodev\tceph\n"), &sharing.Fuse{Tools: tools}} {
		if err := mounter.Mount(t.Context(), folder, access); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"mount.ceph :/volumes/purser/a /staging -o name=csi,secretfile=/proc/self/fd/3,conf=/ceph.conf,mds_namespace=fs,noatime,password=x",
		"ceph-fuse /staging -r /volumes/purser/a --client_mds_namespace=fs -o noatime,password=x",
	}
	if diff := cmp.Diff(want, played.Lines()); diff != "" {
		t.Error(diff)
	}
}

// VolumeCapability.MountVolume: the flags may be sensitive.
func TestNoErrorShowsTheOptions(t *testing.T) {
	failure := faketool.Step{Status: 1, Stderr: "mount failed: (1) Operation not permitted\n"}
	kernel, fuse := failure, failure
	kernel.Begins, fuse.Begins = "mount.ceph", "ceph-fuse"
	tools, _ := play(t, kernel, fuse)
	for _, mounter := range []sharing.Mounter{kernelWith(t, tools, "nodev\tceph\n"), &sharing.Fuse{Tools: tools}} {
		err := mounter.Mount(t.Context(), folder, access)
		if !fault.Forbidden.Is(err) || strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "secret ") {
			t.Errorf("%s: %v", mounter.Name(), err)
		}
	}
}
