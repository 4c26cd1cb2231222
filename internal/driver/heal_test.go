package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
)

// Row 19: a damaged staging record is healed from the loop device and the mount table at the next
// start: the volume is not deleted while it is in use, is published and staged again, and leaves.
func TestADamagedStagingRecordIsHealed(t *testing.T) {
	for _, folders := range [][]string{{"stagings"}, {"staged"}, {"stagings", "staged"}} {
		for _, content := range []string{"", "{", `{"format":9}`, "\x00\x00\x00\x00", `{"path":7}`} {
			t.Run(filepath.Join(folders...)+" "+content, func(t *testing.T) {
				r, staging := loopImages(t)
				staged, idle := stagedVolume(t, r, staging+"vol"), filepath.Join(r.state, "stagings", "gone.json")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				for _, folder := range folders {
					if err := os.WriteFile(filepath.Join(r.state, folder, staged+".json"), []byte(content), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(idle, []byte(content), 0o600); err != nil { // of a volume that is not staged
					t.Fatal(err)
				}
				leave(t, restarted(t, r), staging+"vol", staged)
				if _, err := os.Stat(idle); err == nil {
					t.Error("the record of a volume that is not staged is still there")
				}
			})
		}
	}
}

func stagedVolume(t *testing.T, r *rig, path string) (id string) {
	t.Helper()
	response, err := r.CreateVolume(t.Context(), sized("vol", 16<<20, nil))
	wantCode(t, err, codes.OK)
	id = response.GetVolume().GetVolumeId()
	_, err = r.NodeStageVolume(t.Context(), stageRequest(id, path, mountCapability(writer)))
	wantCode(t, err, codes.OK)
	return id
}

// restarted is the next process on the same state.
func restarted(t *testing.T, r *rig) *rig {
	t.Helper()
	b, err := loopfile.New(loopfile.Config{StateDir: r.state})
	if err != nil {
		t.Fatal(err)
	}
	next := newRig(t, settings{state: r.state, backend: b, mounter: mount.BindMounter{}})
	next.targets = r.targets
	return next
}

func leave(t *testing.T, r *rig, path, id string) {
	t.Helper()
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, "staged")
	_, err = r.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: path, TargetPath: r.target("pod"), VolumeCapability: mountCapability(writer),
	})
	wantCode(t, err, codes.OK)
	_, err = r.NodeStageVolume(t.Context(), stageRequest(id, path, mountCapability(writer)))
	wantCode(t, err, codes.OK)
	r.unpublish(t, id, "pod")
	_, err = r.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path})
	wantCode(t, err, codes.OK)
	r.delete(t, id)
	for _, folder := range []string{"volumes", "staged", "stagings", "trash"} {
		wantEmptyDir(t, filepath.Join(r.state, folder))
	}
}
