package mapping_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

var (
	image  = mapping.Image{Pool: "p", Name: "purser.vol", Dir: "/nowhere"}
	access = command.Access{Cluster: "ceph", Conf: "/ceph.conf", User: "csi", Key: command.NewKey("secret")}
)

func play(t *testing.T, script ...faketool.Step) (*command.Runner, *faketool.Tools) {
	t.Helper()
	tools := faketool.New(t, script...)
	return command.NewRunner(command.Config{LookPath: tools.LookPath, Environment: tools.Environment()}), tools
}

// sysfs is a made-up one with files.
func sysfs(t *testing.T, files map[string]string) string {
	t.Helper()
	sys := t.TempDir()
	for name, content := range files {
		path := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

// A machine that can do nothing says of each mapper what it lacks.
func TestErrorNamesWhatEachMethodLacks(t *testing.T) {
	tools, played := play(t)
	played.Remove("rbd-fuse")
	sys := sysfs(t, nil)
	_, err := mapping.Choose(t.Context(), []mapping.Mapper{&mapping.Kernel{Tools: tools, Sys: sys}, &mapping.NBD{Tools: tools, Sys: sys}, mapping.NewFuse(tools)})
	if !fault.Unready.Is(err) || !errors.Is(err, mapping.ErrNoMapper) {
		t.Fatalf("Choose: %v", err)
	}
	for _, part := range []string{"krbd: ", "modprobe rbd", "rbd-nbd: ", "modprobe nbd", "rbd-fuse: "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
}

func TestTheKernelsClientIsPreferred(t *testing.T) {
	tools, _ := play(t)
	sys := sysfs(t, map[string]string{"bus/rbd/add": "", "block/nbd0/size": "0"})
	mappers := []mapping.Mapper{&mapping.Kernel{Tools: tools, Sys: sys}, &mapping.NBD{Tools: tools, Sys: sys}}
	if mapper, err := mapping.Choose(t.Context(), mappers); err != nil || mapper.Name() != "krbd" {
		t.Errorf("Choose = %v, %v", mapper, err)
	}
	if mapper, known := mapping.Named(mappers, "rbd-nbd"); !known || mapper != mappers[1] {
		t.Errorf("Named = %v, %v", mapper, known)
	}
	if _, known := mapping.Named(mappers, "iscsi"); known {
		t.Error("an unknown mapper was found")
	}
}

// The kernel says which device an image has; other images, and snapshots of
// this one, are not it.
func TestKernelDevices(t *testing.T) {
	tools, played := play(t, faketool.Step{Begins: "rbd", Stdout: "/dev/rbd3\n"})
	device := func(number, pool, name, snap string) map[string]string {
		dir := "bus/rbd/devices/" + number + "/"
		return map[string]string{dir + "pool": pool + "\n", dir + "name": name + "\n", dir + "current_snap": snap + "\n"}
	}
	files := map[string]string{}
	for _, one := range []map[string]string{
		device("0", "q", "purser.vol", "-"), device("1", "p", "purser.other", "-"), device("2", "p", "purser.vol", "snap"), device("3", "p", "purser.vol", "-"),
	} {
		maps.Copy(files, one)
	}
	k := &mapping.Kernel{Tools: tools, Sys: sysfs(t, files)}
	if got, err := k.Map(t.Context(), image, access, mapping.ReadOnly); got != "/dev/rbd3" || err != nil {
		t.Errorf("Map = %q, %v", got, err)
	}
	if got, err := k.Find(t.Context(), image); got != "/dev/rbd3" || err != nil {
		t.Errorf("Find = %q, %v", got, err)
	}
	if err := k.Unmap(t.Context(), image); err != nil {
		t.Error(err)
	}
	want := []string{
		"rbd device map p/purser.vol --device-type=krbd --options=noudev --read-only",
		"rbd device unmap /dev/rbd3 --device-type=krbd --options=noudev --no-config-file",
	}
	if diff := cmp.Diff(want, played.Lines()); diff != "" {
		t.Error(diff)
	}
	k.Sys = sysfs(t, nil) // a kernel without rbd has no devices
	if got, err := k.Find(t.Context(), image); got != "" || err != nil {
		t.Errorf("Find = %q, %v", got, err)
	}
}

func TestNBDDevices(t *testing.T) {
	const listed = `[{"pool":"p","image":"purser.other","snap":"-","device":"/dev/nbd0"},
		{"pool":"p","image":"purser.vol","snap":"s","device":"/dev/nbd1"},{"pool":"p","image":"purser.vol","snap":"-","device":"/dev/nbd2"}]`
	for answer, want := range map[string]string{listed: "/dev/nbd2", "": "", "[]": "", "{": "error"} {
		tools, _ := play(t, faketool.Step{Begins: "rbd-nbd list-mapped", Stdout: answer})
		n := &mapping.NBD{Tools: tools, Sys: sysfs(t, map[string]string{"block/nbd0/size": "0"})}
		got, err := n.Find(t.Context(), image)
		if want == "error" && err == nil || want != "error" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v", answer, got, err)
		}
	}
}

func TestAnImageInUseIsNotUnmapped(t *testing.T) {
	tools, _ := play(t,
		faketool.Step{Begins: "rbd-nbd list-mapped", Stdout: `[{"pool":"p","image":"purser.vol","device":"/dev/nbd0"}]`},
		faketool.Step{Begins: "rbd-nbd unmap", Status: 16, Stderr: "rbd-nbd: unmap failed: (16) Device or resource busy\n"})
	n := &mapping.NBD{Tools: tools, Sys: sysfs(t, map[string]string{"block/nbd0/size": "0"})}
	if err := n.Unmap(t.Context(), image); !fault.InUse.Is(err) {
		t.Errorf("Unmap: %v, want in use", err)
	}
}

// rbd-fuse itself always writes, so readers get a device that does not.
func TestADeviceForReadersIsReadOnly(t *testing.T) {
	if err := loopdev.Usable(); err != nil {
		t.Skip(err)
	}
	for mode, want := range map[mapping.Mode]int{mapping.ReadOnly: 1, mapping.ReadWrite: 0} {
		tools, _ := play(t)
		f := mapping.NewFuse(tools)
		// Where a daemon shows the image already, none is started.
		shown := mapping.Image{Pool: "p", Name: "purser.vol", Dir: t.TempDir()}
		file := filepath.Join(shown.Dir, "fuse", shown.Name)
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, make([]byte, 1<<20), 0o600)); err != nil {
			t.Fatal(err)
		}
		path, err := f.Map(t.Context(), shown, access, mode)
		t.Cleanup(func() { takeAway(t, f, file) })
		if err != nil {
			t.Fatal(err)
		}
		if got := readOnly(t, path); got != want {
			t.Errorf("mode %d: the device is read-only: %d, want %d", mode, got, want)
		}
	}
}

// takeAway needs no daemon, as Unmap does.
func takeAway(t *testing.T, f *mapping.Fuse, file string) {
	t.Helper()
	f.Release()
	device, err := loopdev.BackedBy(file)
	if err == nil && device != nil {
		err = device.Detach()
	}
	if err != nil {
		t.Error(err)
	}
}

// readOnly asks the kernel.
func readOnly(t *testing.T, path string) int {
	t.Helper()
	device, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	is, err := unix.IoctlGetInt(int(device.Fd()), unix.BLKROGET)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// Nothing mapped is nothing to do.
func TestWhatIsNotMappedIsUnmapped(t *testing.T) {
	tools, played := play(t)
	f := mapping.NewFuse(tools)
	nowhere := mapping.Image{Pool: "p", Name: "purser.vol", Dir: t.TempDir()}
	if got, err := f.Find(t.Context(), nowhere); got != "" || err != nil {
		t.Errorf("Find = %q, %v", got, err)
	}
	if err := f.Unmap(t.Context(), nowhere); err != nil {
		t.Error(err)
	}
	if calls := played.Calls(); len(calls) > 0 {
		t.Errorf("calls: %v", calls)
	}
}
