package driver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// onShelf is a rig over a shelf, with a staging path.
func onShelf(t *testing.T, with settings) (*rig, *shelf, string) {
	t.Helper()
	s, ok := with.backend.(*shelf)
	if !ok {
		s = newShelf()
		with.backend = s
	}
	return newRig(t, with), s, filepath.Join(t.TempDir(), "staging")
}

func stageRequest(id, path string, c *csi.VolumeCapability) *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: path, VolumeCapability: c}
}

func (r *rig) stage(t *testing.T, id, path string) {
	t.Helper()
	_, err := r.NodeStageVolume(t.Context(), stageRequest(id, path, mountCapability(writer)))
	wantCode(t, err, codes.OK)
}

func (r *rig) unstage(t *testing.T, id, path string) {
	t.Helper()
	_, err := r.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path})
	wantCode(t, err, codes.OK)
}

func (r *rig) publishStaged(t *testing.T, id, staging, target string) {
	t.Helper()
	request := r.publishRequest(id, target)
	request.StagingTargetPath = staging
	_, err := r.NodePublishVolume(t.Context(), request)
	wantCode(t, err, codes.OK)
}

// 3.1 NodeStageVolume: 3, 5, 6, 9, and what is repeated.
func TestNodeStageVolumeCodes(t *testing.T) {
	r, _, path := onShelf(t, settings{})
	id := r.create(t, "vol")
	r.stage(t, id, path)
	ntfs := mountCapability(writer)
	ntfs.GetMount().FsType = "ntfs"
	xfs := mountCapability(writer)
	xfs.GetMount().FsType = "xfs"
	tests := []struct {
		why     string
		request *csi.NodeStageVolumeRequest
		code    codes.Code
		part    string
	}{
		{"again", stageRequest(id, path, mountCapability(writer)), codes.OK, ""},
		{"no id", stageRequest("", path, mountCapability(writer)), codes.InvalidArgument, "volume_id"},
		{"no path", stageRequest(id, "", mountCapability(writer)), codes.InvalidArgument, "staging_target_path"},
		{"relative path", stageRequest(id, "a", mountCapability(writer)), codes.InvalidArgument, "staging_target_path"},
		{"no capability", stageRequest(id, path, nil), codes.InvalidArgument, "volume_capability"},
		{"unknown", stageRequest("other", path, mountCapability(writer)), codes.NotFound, "other"},
		{"no id of ours", stageRequest("../vol", path, mountCapability(writer)), codes.NotFound, ""},
		{"what no volume has", stageRequest(id, path, ntfs), codes.FailedPrecondition, "ntfs"},
		{"another filesystem", stageRequest(id, path, xfs), codes.AlreadyExists, "mount(xfs)"},
		{"as a device", stageRequest(id, path, blockCapability()), codes.AlreadyExists, "unstage it first"},
		{"elsewhere", stageRequest(id, path+"2", mountCapability(writer)), codes.FailedPrecondition, path},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			_, err := r.NodeStageVolume(t.Context(), test.request)
			wantCode(t, err, test.code, test.part)
		})
	}
}

func TestTheLifeOfAStagedVolume(t *testing.T) {
	r, s, path := onShelf(t, settings{})
	id := r.create(t, "vol")
	request := r.publishRequest(id, "target")
	_, err := r.NodePublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, "staging_target_path: missing")
	request.StagingTargetPath = path
	_, err = r.NodePublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, "not staged")
	for range 2 {
		r.stage(t, id, path)
		r.publishStaged(t, id, path, "target")
	}
	unstage := &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: path}
	_, err = r.NodeUnstageVolume(t.Context(), unstage)
	wantCode(t, err, codes.FailedPrecondition, r.target("target"))
	r.unpublish(t, id, "target")
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, "staged on this node at "+path)
	r.unstage(t, id, path+"-elsewhere") // nothing is there
	if s.staged[idOf(t, r, id)] != path {
		t.Error("unstaging one path took the volume away from another")
	}
	for range 2 {
		r.unstage(t, id, path)
	}
	r.delete(t, id)
	for _, dir := range []string{"stagings", "published"} {
		wantEmptyDir(t, filepath.Join(r.state, dir))
	}
}

// A volume is published as it was staged ("NodePublishVolume Errors": exceeds
// capabilities).
func TestPublishingAsSomethingElse(t *testing.T) {
	r, _, path := onShelf(t, settings{})
	id := r.create(t, "vol")
	r.stage(t, id, path)
	request := r.publishRequest(id, "target")
	request.StagingTargetPath, request.VolumeCapability = path, blockCapability()
	_, err := r.NodePublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, "staged as mount SINGLE_NODE_WRITER")
	request.VolumeCapability, request.StagingTargetPath = mountCapability(writer), path+"2"
	_, err = r.NodePublishVolume(t.Context(), request)
	wantCode(t, err, codes.FailedPrecondition, path)
}

// The driver is killed between the record and the backend, or the machine
// loses everything that was staged: the record must not count for ever.
func TestAHalfStagedVolume(t *testing.T) {
	r, s, path := onShelf(t, settings{})
	id := r.create(t, "vol")
	s.failing["Stage"] = errors.New("no device")
	_, err := r.NodeStageVolume(t.Context(), stageRequest(id, path, mountCapability(writer)))
	wantCode(t, err, codes.Internal, "no device")
	block := stageRequest(id, path, blockCapability())
	_, err = r.NodeStageVolume(t.Context(), block) // other arguments
	wantCode(t, err, codes.OK)
	if !slices.Contains(s.calls, "Unstage") {
		t.Errorf("the half was not cleared away: %q", s.calls)
	}
	delete(s.staged, idOf(t, r, id)) // a restart of the machine
	r.delete(t, id)
	wantEmptyDir(t, filepath.Join(r.state, "stagings"))

	id = r.create(t, "vol")
	r.stage(t, id, path)
	delete(s.staged, idOf(t, r, id))
	s.failing["Unstage"] = fault.InUse.Errorf("something holds the device")
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, "holds the device")
	r.delete(t, id)
}

func TestStagingSurvivesARestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r, s, path := onShelf(t, settings{state: state})
	id := r.create(t, "vol")
	r.stage(t, id, path)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r, _, _ = onShelf(t, settings{state: state, backend: s})
	_, err := r.NodeStageVolume(t.Context(), stageRequest(id, path, blockCapability()))
	wantCode(t, err, codes.AlreadyExists)
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, path)
	if err := errors.Join(r.stop(), os.Remove(filepath.Join(state, "stagings", id+".json"))); err != nil {
		t.Fatal(err)
	}

	// Without its record the backend is believed, and the volume is in use.
	r, _, _ = onShelf(t, settings{state: state, backend: s})
	r.publishStaged(t, id, path, "target")
	r.unpublish(t, id, "target")
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, path)
	if err := errors.Join(r.stop(), os.Truncate(filepath.Join(state, "stagings", id+".json"), 5)); err != nil {
		t.Fatal(err)
	}

	// A damaged record: in use until it is unstaged.
	r, _, _ = onShelf(t, settings{state: state, backend: s})
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.Internal, "is damaged")
	r.unstage(t, id, path)
	r.delete(t, id)
}

// 3.1 NodeGetVolumeStats and NodeExpandVolume: 3 and 5, at targets and at the
// staging path.
func TestStatsAndNodeExpandOfAStagedVolume(t *testing.T) {
	r, s, path := onShelf(t, settings{})
	id := r.create(t, "vol")
	stats := func(id, path string) error {
		_, err := r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
		return err
	}
	expand := func(id, path string) error {
		_, err := r.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: path})
		return err
	}
	for name, ask := range map[string]func(id, path string) error{"stats": stats, "expand": expand} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, ask(id, path), codes.NotFound)
			r.stage(t, id, path)
			r.publishStaged(t, id, path, "target")
			wantCode(t, ask("", path), codes.InvalidArgument, "volume_id")
			wantCode(t, ask(id, ""), codes.InvalidArgument, "volume_path")
			wantCode(t, ask("unknown", path), codes.NotFound)
			wantCode(t, ask("../unknown", path), codes.NotFound)
			wantCode(t, ask(id, "some/path"), codes.NotFound)
			wantCode(t, ask(id, r.target("other")), codes.NotFound)
			wantCode(t, ask(id, path), codes.OK)
			wantCode(t, ask(id, r.target("target")), codes.OK)
			r.unpublish(t, id, "target")
			r.unstage(t, id, path)
		})
	}
	if want := "NodeExpand mount " + path; !slices.Contains(s.calls, want) {
		t.Errorf("calls %q lack %q", s.calls, want)
	}
}

// 3.1 ValidateVolumeCapabilities: confirmed is what this very volume can do,
// and not only what some volume of the backend can.
func TestValidateAsksAboutTheVolume(t *testing.T) {
	r, s, _ := onShelf(t, settings{})
	request := &csi.ValidateVolumeCapabilitiesRequest{
		VolumeId:           r.create(t, "vol"),
		VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer)},
	}
	response, err := r.ValidateVolumeCapabilities(t.Context(), request)
	wantCode(t, err, codes.OK)
	if response.GetConfirmed() == nil {
		t.Errorf("not confirmed: %s", response.GetMessage())
	}
	request.VolumeCapabilities = append(request.VolumeCapabilities, blockCapability())
	response, err = r.ValidateVolumeCapabilities(t.Context(), request)
	wantCode(t, err, codes.OK)
	if response.GetConfirmed() != nil || !strings.Contains(response.GetMessage(), "is for mount") {
		t.Errorf("confirmed %v, message %q", response.GetConfirmed(), response.GetMessage())
	}
	s.failing["CheckVolume"] = fault.Busy.Errorf("no answer")
	_, err = r.ValidateVolumeCapabilities(t.Context(), request)
	wantCode(t, err, codes.Aborted, "no answer")
}
