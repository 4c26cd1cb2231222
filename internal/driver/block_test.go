package driver

import (
	"context"
	"io/fs"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

func blockMode(mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	c := blockCapability()
	c.AccessMode.Mode = mode
	return c
}

// stagedBlock is a volume that is staged as a device.
func stagedBlock(t *testing.T, mode csi.VolumeCapability_AccessMode_Mode) (r *rig, staging string) {
	t.Helper()
	r, staging = loopImages(t)
	staging += "vol"
	request := sized("vol", 4<<20, nil)
	request.VolumeCapabilities = []*csi.VolumeCapability{blockMode(mode)}
	_, err := r.CreateVolume(t.Context(), request)
	wantCode(t, err, codes.OK)
	_, err = r.NodeStageVolume(t.Context(), stageRequest("vol", staging, blockMode(mode)))
	wantCode(t, err, codes.OK)
	t.Cleanup(func() {
		// The context of the test has ended by now.
		ctx := context.WithoutCancel(t.Context())
		_, err := r.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: "vol", StagingTargetPath: staging})
		wantCode(t, err, codes.OK)
		_, err = r.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: "vol"})
		wantCode(t, err, codes.OK)
	})
	return r, staging
}

func publishBlock(t *testing.T, r *rig, staging, target string, mode csi.VolumeCapability_AccessMode_Mode, readOnly bool) error {
	t.Helper()
	_, err := r.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: "vol", StagingTargetPath: staging, TargetPath: r.target(target), VolumeCapability: blockMode(mode), Readonly: readOnly,
	})
	return err
}

// The target of a block volume is a file over which the device is bound. A
// read-only one refuses writes although a device node leads past the mount.
func TestPublishingADevice(t *testing.T) {
	r, staging := stagedBlock(t, writer)
	for _, readOnly := range []bool{true, false, true} {
		for range 2 {
			wantCode(t, publishBlock(t, r, staging, "target", writer, readOnly), codes.OK)
		}
		info, err := os.Stat(r.target("target"))
		if err != nil || info.Mode()&fs.ModeDevice == 0 {
			t.Fatalf("the target is %v, %v", info, err)
		}
		file, err := os.OpenFile(r.target("target"), os.O_RDWR, 0)
		if err == nil {
			_, err = file.WriteString("x")
			_ = file.Close()
		}
		if (err != nil) != readOnly {
			t.Errorf("readonly=%v: writing gave %v", readOnly, err)
		}
		wantCode(t, publishBlock(t, r, staging, "target", writer, !readOnly), codes.AlreadyExists)
		wantCode(t, publishBlock(t, r, staging, "second", writer, readOnly), codes.FailedPrecondition, r.target("target"))
		usage, err := r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: "vol", VolumePath: r.target("target")})
		if wantCode(t, err, codes.OK); len(usage.GetUsage()) != 1 || usage.GetUsage()[0].GetTotal() != 4<<20 {
			t.Errorf("usage: %v", usage)
		}
		for range 2 {
			r.unpublish(t, "vol", "target")
		}
		wantEmptyDir(t, r.targets)
	}
}

// The flag of a device is one for all its paths.
func TestADeviceIsReadOnlyEverywhereOrNowhere(t *testing.T) {
	const several = csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	r, staging := stagedBlock(t, several)
	wantCode(t, publishBlock(t, r, staging, "one", several, true), codes.OK)
	wantCode(t, publishBlock(t, r, staging, "two", several, false), codes.FailedPrecondition, "cannot be read-only at one path and writable at another")
	wantCode(t, publishBlock(t, r, staging, "two", several, true), codes.OK)
	r.unpublish(t, "vol", "one")
	wantCode(t, publishBlock(t, r, staging, "three", several, false), codes.FailedPrecondition, r.target("two"))
	r.unpublish(t, "vol", "two")
	wantCode(t, publishBlock(t, r, staging, "three", several, false), codes.OK)
	r.unpublish(t, "vol", "three")
}

// A file or a directory at the target path of a device is not replaced.
func TestADeviceHidesNothing(t *testing.T) {
	r, staging := stagedBlock(t, writer)
	if err := os.WriteFile(r.target("file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.target("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantCode(t, publishBlock(t, r, staging, "file", writer, false), codes.FailedPrecondition, "a file of 8 bytes")
	wantCode(t, publishBlock(t, r, staging, "folder", writer, false), codes.FailedPrecondition, "a directory")
	wantCode(t, publishBlock(t, r, staging, "missing/target", writer, false), codes.FailedPrecondition, "create it first")
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: "vol", TargetPath: r.target("file")}
	_, err := r.NodeUnpublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, "stays as it is")
	if content, err := os.ReadFile(r.target("file")); string(content) != "precious" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	// A kill between the creation of the file and the mount leaves an empty file.
	if err := os.WriteFile(r.target("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.unpublish(t, "vol", "empty")
	if _, err := os.Lstat(r.target("empty")); err == nil {
		t.Error("the empty file stays")
	}
}

// The staging path is unmounted by another program: the published
// targets keep the volume in use, and can be unpublished.
func TestAStagingPathThatIsGone(t *testing.T) {
	r, staging := loopImages(t)
	staging += "vol"
	_, err := r.CreateVolume(t.Context(), sized("vol", 16<<20, nil))
	wantCode(t, err, codes.OK)
	r.stage(t, "vol", staging)
	r.publishStaged(t, "vol", staging, "target")
	if err := r.driver.config.Mounter.Unbind(staging); err != nil {
		t.Fatal(err)
	}
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "vol"})
	wantCode(t, err, codes.FailedPrecondition, r.target("target"))
	r.unpublish(t, "vol", "target")
	r.unstage(t, "vol", staging)
	r.delete(t, "vol")
}
