package driver

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/mount"
)

// realMounts skips where the process may not mount.
func realMounts(t *testing.T) *rig {
	t.Helper()
	state := t.TempDir()
	detection, err := mount.Detect(state)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := detection.Mounter.(mount.BindMounter); !ok {
		t.Skip("needs to mount, but is " + detection.Reason)
	}
	r := newRig(t, settings{state: state, mounter: detection.Mounter})
	t.Cleanup(func() {
		if _, err := mount.CleanBelow(r.targets); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	return r
}

// Readonly is a flag, and two access modes imply it.
func TestReadOnlyPublicationsCannotBeWritten(t *testing.T) {
	r := realMounts(t)
	tests := []struct {
		mode     csi.VolumeCapability_AccessMode_Mode
		readOnly bool
		writes   bool
	}{
		{writer, false, true},
		{writer, true, false},
		{csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, false, false},
		{csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, false, false},
		{csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, false, true},
	}
	id := r.create(t, "vol")
	for _, test := range tests {
		request := r.publishRequest(id, "target")
		request.VolumeCapability, request.Readonly = mountCapability(test.mode), test.readOnly
		_, err := r.NodePublishVolume(t.Context(), request)
		wantCode(t, err, codes.OK)
		err = os.WriteFile(filepath.Join(r.target("target"), "file"), nil, 0o644)
		if (err == nil) != test.writes {
			t.Errorf("%s readonly=%v: writing gave %v", test.mode, test.readOnly, err)
		}
		r.unpublish(t, id, "target")
	}
	wantEmptyDir(t, r.targets)
}

// The mount outlives the driver, and the restarted driver recognises it.
func TestARealMountSurvivesARestart(t *testing.T) {
	r := realMounts(t)
	id, state, targets := r.create(t, "vol"), r.state, r.targets
	r.publish(t, id, "target")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, settings{state: state, mounter: mount.BindMounter{}})
	r.targets = targets
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	r.unpublish(t, id, "target")
	r.delete(t, id)
}

// A pod with bidirectional propagation can leave a mount inside the volume.
// Deleting the volume must not delete the files that are mounted there.
func TestDeleteSparesAMountInsideTheVolume(t *testing.T) {
	r := realMounts(t)
	id := r.create(t, "vol")
	precious := t.TempDir()
	if err := os.WriteFile(filepath.Join(precious, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(r.state, "volumes", id, "data", "inside")
	if err := (mount.BindMounter{}).Bind(precious, inside, mount.ReadWrite); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = mount.CleanBelow(r.state) })
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, "inside")
	if _, err := os.Stat(filepath.Join(precious, "file")); errors.Is(err, fs.ErrNotExist) {
		t.Error("the content of the mount is gone")
	}
	if err := (mount.BindMounter{}).Unbind(inside); err != nil {
		t.Fatal(err)
	}
	r.delete(t, id)
}

// The process dies with the volume in use by a workload: unpublish says so.
func TestUnpublishOfAVolumeInUse(t *testing.T) {
	r := realMounts(t)
	id := r.create(t, "vol")
	r.publish(t, id, "target")
	file, err := os.Create(filepath.Join(r.target("target"), "file"))
	if err != nil {
		t.Fatal(err)
	}
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: r.target("target")}
	_, err = r.NodeUnpublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, "still uses the mount")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	r.unpublish(t, id, "target")
	if strings.Contains(strings.Join(mounts(t, r.targets), " "), "target") {
		t.Error("still mounted")
	}
}

// silent fails every read of a mounted filesystem, which may hang.
type silent struct {
	mount.BindMounter
	t *testing.T
}

func (s silent) IsBound(_, target string) (bool, error) {
	s.t.Errorf("what is mounted at %s was looked at", target)
	return true, nil
}

// NodeGetVolumeStats, the start and unpublish do not read the mounted filesystem, which may hang.
// For its usage the backend has a timeout.
func TestMountedFilesystemsAreNotRead(t *testing.T) {
	realMounts(t) // or skip
	state := filepath.Join(t.TempDir(), "state")
	r, s, path := onShelf(t, settings{state: state, mounter: silent{t: t}})
	t.Cleanup(func() {
		if _, err := mount.CleanBelow(r.targets); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	id, targets := r.create(t, "vol"), r.targets
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	r.stage(t, id, path)
	r.publishStaged(t, id, path, "target")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r, _, _ = onShelf(t, settings{state: state, backend: s, mounter: silent{t: t}})
	r.targets = targets
	stats := &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: r.target("target")}
	_, err := r.NodeGetVolumeStats(t.Context(), stats)
	wantCode(t, err, codes.OK)
	r.unpublish(t, id, "target")
	r.unstage(t, id, path)
	r.delete(t, id)
}

func mounts(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := mount.Below(dir)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
