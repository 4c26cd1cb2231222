package loopfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
)

// rig is a backend on real files, and a folder for staging paths.
type rig struct {
	testing.TB
	*Backend
	dir, state string
}

// mayLoop skips the test on a machine without loop devices or root.
func mayLoop(t testing.TB) {
	t.Helper()
	if err := Usable(t.TempDir()); err != nil {
		t.Skip("needs loop devices and mounts: " + err.Error())
	}
}

func mayMake(t testing.TB, types ...filesystem.Type) {
	t.Helper()
	for _, fs := range types {
		if err := filesystem.Present(fs); err != nil {
			t.Skip("needs the program that makes " + string(fs) + ": " + err.Error())
		}
	}
}

// sandbox is a folder that leaves no mount and no loop device behind, however
// the test ends.
func sandbox(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		// Looked up first: when a pool is no longer mounted, its images have
		// other paths.
		devices := devicesBelow(t, dir)
		if _, err := mount.CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
		for _, device := range devices {
			if err := device.Detach(); err != nil {
				t.Errorf("leave no loop device behind: %v", err)
			}
		}
	})
	return dir
}

// devicesBelow opens the loop devices whose image is below a folder.
func devicesBelow(t testing.TB, dir string) []*loopdev.Device {
	t.Helper()
	all, err := loopdev.All(loopdev.Below(dir))
	if err != nil {
		t.Fatal(err)
	}
	var below []*loopdev.Device
	for _, devices := range all {
		below = append(below, devices...)
	}
	return below
}

// newRig is on the filesystem of the temporary folder.
func newRig(t testing.TB) *rig {
	t.Helper()
	mayLoop(t)
	dir := sandbox(t)
	return openRig(t, dir, Config{StateDir: filepath.Join(dir, "state")})
}

func openRig(t testing.TB, dir string, config Config) *rig {
	t.Helper()
	b, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &rig{TB: t, Backend: b, dir: dir, state: config.StateDir}
}

// poolRig has a pool of its own: a filesystem in an image.
func poolRig(t testing.TB, fs filesystem.Type, bytes int64, config Config) *rig {
	t.Helper()
	mayLoop(t)
	mayMake(t, fs)
	dir := sandbox(t)
	path, root := filepath.Join(dir, "pool.img"), filepath.Join(dir, "pool")
	if err := errors.Join(image.Create(path, bytes), filesystem.Make(t.Context(), fs, path, filesystem.Sparse), os.Mkdir(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	device, err := loopdev.Attach(t.Context(), path, loopdev.UntilDetached)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Release() })
	if err := filesystem.Mount(filesystem.Mounting{Type: fs, Device: device.Path(), Path: root, Discard: true}); err != nil {
		t.Skipf("needs a kernel with %s: %v", fs, err)
	}
	config.StateDir = filepath.Join(root, "state")
	return openRig(t, dir, config)
}

// restart simulates a kill of the program: it returns another backend on the same files, and closes
// the device files of the first one, as the kernel does.
func (r *rig) restart() *rig {
	r.Helper()
	for _, device := range r.devices {
		_ = device.Release()
	}
	return openRig(r.TB, r.dir, r.config)
}

func mountOf(fs filesystem.Type) backend.Capability {
	return backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter, FSType: string(fs)}
}

var blockAccess = backend.Capability{Type: backend.Block, Mode: backend.SingleNodeWriter}

func request(name string, c backend.Capability, bytes int64) backend.Request {
	return backend.Request{
		ID: backend.IDOf(name), Name: name, Size: backend.Range{Required: bytes}, Capabilities: []backend.Capability{c},
	}
}

func (r *rig) create(request backend.Request) backend.Volume {
	r.Helper()
	v, err := r.Create(r.Context(), request)
	if err != nil {
		r.Fatalf("create %s: %v", request.Name, err)
	}
	return v
}

func (r *rig) staging(id backend.ID, c backend.Capability) backend.Staging {
	path := filepath.Join(r.dir, "staging-"+id.String())
	return backend.Staging{Volume: id, Path: path, Capability: c}
}

// stage stages a volume and returns the source of a target: a folder, or a device.
func (r *rig) stage(id backend.ID, c backend.Capability) string {
	r.Helper()
	s := r.staging(id, c)
	if err := r.Stage(r.Context(), s); err != nil {
		r.Fatalf("stage %s: %v", id, err)
	}
	source, err := r.Staged(r.Context(), id, s.Path, c.Type)
	if err != nil {
		r.Fatalf("staged %s: %v", id, err)
	}
	return source
}

func (r *rig) unstage(id backend.ID) {
	r.Helper()
	if err := r.Unstage(r.Context(), id, r.staging(id, blockAccess).Path); err != nil {
		r.Fatalf("unstage %s: %v", id, err)
	}
}

func (r *rig) remove(id backend.ID) {
	r.Helper()
	if err := r.Delete(r.Context(), id); err != nil {
		r.Fatalf("delete %s: %v", id, err)
	}
}

// write puts a file of some size into a folder, or the bytes onto a device.
func write(t testing.TB, source, name string, bytes int) [32]byte {
	t.Helper()
	content := bytesOf(name, bytes)
	file, err := os.OpenFile(target(t, source, name), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(content)
}

func wantContent(t testing.TB, source, name string, bytes int) {
	t.Helper()
	file, err := os.Open(target(t, source, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content := make([]byte, bytes)
	if _, err := file.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(content) != sha256.Sum256(bytesOf(name, bytes)) {
		t.Errorf("%s in %s is not what was written", name, source)
	}
}

func target(t testing.TB, source, name string) string {
	t.Helper()
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		return filepath.Join(source, name)
	}
	return source
}

// bytesOf are bytes that no other name has.
func bytesOf(name string, size int) []byte {
	sum := sha256.Sum256([]byte(name))
	return bytes.Repeat(sum[:], size/len(sum)+1)[:size]
}

func (r *rig) wantNoDevices() {
	r.Helper()
	for _, device := range devicesBelow(r.TB, r.state) {
		r.Errorf("%s still has %s", device.Path(), device.BackingPath())
		_ = device.Release()
	}
}

func wantEntries(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

// putNumber overwrites a number in one step that reaches the disk.
func putNumber(path string, n uint32) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.BigEndian.AppendUint32(nil, n), 0)
	return errors.Join(err, file.Sync(), file.Close())
}

// readNumber returns 0 if the file is not written yet.
func readNumber(t *testing.T, path string) uint32 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if len(content) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(content)
}
