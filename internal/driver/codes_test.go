package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// The error tables of the CSI spec, RPC by RPC, for a volume "vol" that
// exists and one "missing" that does not.

const (
	writer  = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	garbage = "../../../etc/passwd"
)

func TestCreateVolumeCodes(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	tests := []struct {
		name   string
		change func(*csi.CreateVolumeRequest)
		code   codes.Code
		text   string
	}{
		{"good", func(*csi.CreateVolumeRequest) {}, codes.OK, ""},
		{"no name", func(r *csi.CreateVolumeRequest) { r.Name = "" }, codes.InvalidArgument, "name: missing"},
		{"128 bytes of name", func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("n", 128) }, codes.OK, ""},
		{"129 bytes of name", func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("n", 129) }, codes.InvalidArgument, "129 bytes"},
		{"a banned character", func(r *csi.CreateVolumeRequest) { r.Name = "a\x7fb" }, codes.InvalidArgument, "control character"},
		{"a name that looks like a path", func(r *csi.CreateVolumeRequest) { r.Name = garbage }, codes.OK, ""},
		{"no capabilities", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil }, codes.InvalidArgument, "volume_capabilities: missing"},
		{"no access type", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessType = nil }, codes.InvalidArgument, "access_type: missing"},
		{"no access mode", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessMode = nil }, codes.InvalidArgument, "access_mode: missing"},
		{"unknown access mode", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = mountCapability(99) }, codes.InvalidArgument, "access_mode 99"},
		{"block", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = blockCapability() }, codes.InvalidArgument, "block"},
		{"one of two is block", func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = append(r.VolumeCapabilities, blockCapability())
		}, codes.InvalidArgument, "block"},
		{"mount flags", func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].GetMount().MountFlags = []string{"password=secret"}
		}, codes.InvalidArgument, "mount_flags"},
		{"filesystem", func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "xfs" }, codes.InvalidArgument, `"xfs"`},
		{"no size", func(r *csi.CreateVolumeRequest) { r.CapacityRange = nil }, codes.OK, ""},
		{"empty size", func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{} }, codes.InvalidArgument, "capacity_range: empty"},
		{"negative size", func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }, codes.InvalidArgument, "required_bytes -1"},
		{"negative limit", func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = -1 }, codes.InvalidArgument, "limit_bytes -1"},
		{"limit below size", func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = 1 }, codes.OutOfRange, "limit_bytes 1"},
		{"unknown parameter", func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"colour": "red"} }, codes.InvalidArgument, `"colour"`},
		{"the provisioner's parameters", func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"csi.storage.k8s.io/pvc/name": "claim"}
		}, codes.OK, ""},
		{"long parameters", func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{"csi.storage.k8s.io/pvc/name": strings.Repeat("x", 5000)}
		}, codes.InvalidArgument, "5027 bytes"},
		{"source", func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
				Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "vol"},
			}}
		}, codes.InvalidArgument, "volume_content_source"},
		{"topology", func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = &csi.TopologyRequirement{} }, codes.InvalidArgument, "accessibility_requirements"},
		{"mutable parameters", func(r *csi.CreateVolumeRequest) { r.MutableParameters = map[string]string{"iops": "9"} }, codes.InvalidArgument, "mutable_parameters"},
		{"same name, larger", func(r *csi.CreateVolumeRequest) { r.Name, r.CapacityRange.RequiredBytes = "vol", 2<<30 }, codes.AlreadyExists, "at least 2147483648 wanted"},
		{"same name, smaller", func(r *csi.CreateVolumeRequest) {
			r.Name, r.CapacityRange = "vol", &csi.CapacityRange{RequiredBytes: 1, LimitBytes: 2}
		}, codes.AlreadyExists, "1 to 2 wanted"},
		{"same name, other mode", func(r *csi.CreateVolumeRequest) {
			r.Name, r.VolumeCapabilities[0] = "vol", mountCapability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
		}, codes.AlreadyExists, `["mount SINGLE_NODE_WRITER"], ["mount MULTI_NODE_MULTI_WRITER"] wanted`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := createRequest("new " + test.name)
			test.change(request)
			_, err := r.CreateVolume(t.Context(), request)
			wantCode(t, err, test.code, test.text)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("mount flags leak: %v", err)
			}
		})
	}
}

func TestEveryAccessModeCanBeCreated(t *testing.T) {
	r := newRig(t, settings{})
	for mode, name := range csi.VolumeCapability_AccessMode_Mode_name {
		request := createRequest("vol-" + name)
		request.VolumeCapabilities[0] = mountCapability(csi.VolumeCapability_AccessMode_Mode(mode))
		want := codes.OK
		if name == "UNKNOWN" {
			want = codes.InvalidArgument
		}
		_, err := r.CreateVolume(t.Context(), request)
		t.Log(name)
		wantCode(t, err, want)
	}
}

func TestDeleteVolumeCodes(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	published := r.create(t, "published")
	r.publish(t, published, "target")
	tests := []struct {
		name, id string
		code     codes.Code
		text     string
	}{
		{"no id", "", codes.InvalidArgument, "volume_id: missing"},
		{"unknown", "missing", codes.OK, ""},
		{"garbage", garbage, codes.OK, ""},
		{"long", strings.Repeat("x", 4096), codes.OK, ""},
		{"in use", published, codes.FailedPrecondition, r.target("target")},
		{"good", "vol", codes.OK, ""},
		{"again", "vol", codes.OK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: test.id})
			wantCode(t, err, test.code, test.text)
		})
	}
}

func TestValidateVolumeCapabilitiesCodes(t *testing.T) {
	r := newRig(t, settings{})
	good := func() *csi.ValidateVolumeCapabilitiesRequest {
		return &csi.ValidateVolumeCapabilitiesRequest{
			VolumeId: "vol", VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer)},
		}
	}
	r.create(t, "vol")
	tests := []struct {
		name    string
		change  func(*csi.ValidateVolumeCapabilitiesRequest)
		code    codes.Code
		message string // of an answer without confirmation
	}{
		{"good", func(*csi.ValidateVolumeCapabilitiesRequest) {}, codes.OK, ""},
		{"no id", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.VolumeId = "" }, codes.InvalidArgument, ""},
		{"no capabilities", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.VolumeCapabilities = nil }, codes.InvalidArgument, ""},
		{"unknown", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.VolumeId = "missing" }, codes.NotFound, ""},
		{"garbage", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.VolumeId = garbage }, codes.NotFound, ""},
		{"block", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.VolumeCapabilities[0] = blockCapability() }, codes.OK, "block"},
		{"another mode", func(r *csi.ValidateVolumeCapabilitiesRequest) {
			r.VolumeCapabilities[0] = mountCapability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
		}, codes.OK, ""},
		{"parameters", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.Parameters = map[string]string{"a": "b"} }, codes.OK, "unknown keys"},
		{"mutable parameters", func(r *csi.ValidateVolumeCapabilitiesRequest) { r.MutableParameters = map[string]string{"a": "b"} }, codes.OK, "MODIFY_VOLUME"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := good()
			test.change(request)
			response, err := r.ValidateVolumeCapabilities(t.Context(), request)
			wantCode(t, err, test.code)
			if confirmed := response.GetConfirmed() != nil; confirmed != (test.code == codes.OK && test.message == "") {
				t.Errorf("confirmed: %v", confirmed)
			}
			if !strings.Contains(response.GetMessage(), test.message) {
				t.Errorf("message %q, want %q", response.GetMessage(), test.message)
			}
			if c := response.GetConfirmed(); c != nil && !proto.Equal(c.GetVolumeCapabilities()[0], request.GetVolumeCapabilities()[0]) {
				t.Errorf("confirmed something else: %v", c)
			}
		})
	}
}

func TestGetCapacityCodes(t *testing.T) {
	r := newRig(t, settings{})
	tests := []struct {
		name    string
		request *csi.GetCapacityRequest
		code    codes.Code
		room    bool
	}{
		{"of all", &csi.GetCapacityRequest{}, codes.OK, true},
		{"for mounts", &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer)}}, codes.OK, true},
		{"for blocks", &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{blockCapability()}}, codes.OK, false},
		{"with unknown parameters", &csi.GetCapacityRequest{Parameters: map[string]string{"a": "b"}}, codes.OK, false},
		{"malformed", &csi.GetCapacityRequest{VolumeCapabilities: []*csi.VolumeCapability{{}}}, codes.InvalidArgument, false},
		{"topology", &csi.GetCapacityRequest{AccessibleTopology: &csi.Topology{}}, codes.InvalidArgument, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, err := r.GetCapacity(t.Context(), test.request)
			wantCode(t, err, test.code)
			if (response.GetAvailableCapacity() > 0) != test.room {
				t.Errorf("available: %d", response.GetAvailableCapacity())
			}
		})
	}
}

func TestNodePublishVolumeCodes(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	tests := []struct {
		name   string
		change func(*csi.NodePublishVolumeRequest)
		code   codes.Code
		text   string
	}{
		{"no id", func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "" }, codes.InvalidArgument, "volume_id: missing"},
		{"no target", func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "" }, codes.InvalidArgument, "target_path: missing"},
		{"relative target", func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "a/b" }, codes.InvalidArgument, "absolute"},
		{"zero byte in the target", func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "/a\x00b" }, codes.InvalidArgument, "zero byte"},
		{"no capability", func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil }, codes.InvalidArgument, "volume_capability: missing"},
		{"empty capability", func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = &csi.VolumeCapability{} }, codes.InvalidArgument, "access_mode: missing"},
		{"unknown", func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "missing" }, codes.NotFound, `"missing"`},
		{"garbage", func(r *csi.NodePublishVolumeRequest) { r.VolumeId = garbage }, codes.NotFound, "does not exist"},
		{"exceeds capabilities", func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }, codes.FailedPrecondition, "block"},
		{"no parent", func(r *csi.NodePublishVolumeRequest) { r.TargetPath += "/missing/target" }, codes.FailedPrecondition, "parent directory"},
		{"good", func(*csi.NodePublishVolumeRequest) {}, codes.OK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			request := r.publishRequest("vol", "target")
			test.change(request)
			_, err := r.NodePublishVolume(t.Context(), request)
			wantCode(t, err, test.code, test.text)
		})
	}
}

func TestNodeUnpublishVolumeCodes(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	r.create(t, "other")
	r.publish(t, "vol", "target")
	tests := []struct {
		name, id, target string
		code             codes.Code
		text             string
	}{
		{"no id", "", r.target("target"), codes.InvalidArgument, "volume_id: missing"},
		{"no target", "vol", "", codes.InvalidArgument, "target_path: missing"},
		{"relative target", "vol", "a", codes.InvalidArgument, "absolute"},
		{"another volume's target", "other", r.target("target"), codes.FailedPrecondition, `"vol" is published there`},
		{"never published", "vol", r.target("nowhere"), codes.OK, ""},
		{"unknown volume, nothing there", "missing", r.target("nowhere"), codes.OK, ""},
		{"garbage, nothing there", garbage, r.target("nowhere"), codes.OK, ""},
		{"unknown volume, something there", "missing", r.targets, codes.NotFound, "does not exist"},
		{"known volume, something else there", "vol", r.targets, codes.FailedPrecondition, "stays as it is"},
		{"good", "vol", r.target("target"), codes.OK, ""},
		{"again", "vol", r.target("target"), codes.OK, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := r.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: test.id, TargetPath: test.target})
			wantCode(t, err, test.code, test.text)
		})
	}
}

func TestNodeGetVolumeStatsCodes(t *testing.T) {
	r := newRig(t, settings{})
	r.create(t, "vol")
	r.create(t, "other")
	r.publish(t, "vol", "target")
	tests := []struct {
		name, id, path string
		code           codes.Code
	}{
		{"no id", "", r.target("target"), codes.InvalidArgument},
		{"no path", "vol", "", codes.InvalidArgument},
		{"unknown volume", "missing", r.target("target"), codes.NotFound},
		{"garbage", garbage, r.target("target"), codes.NotFound},
		{"wrong path", "vol", r.target("elsewhere"), codes.NotFound},
		{"relative path", "vol", "some/path", codes.NotFound},
		{"another volume's path", "other", r.target("target"), codes.NotFound},
		{"good", "vol", r.target("target"), codes.OK},
		{"the same path, spelled otherwise", "vol", r.targets + "/./x/../target/", codes.OK},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response, err := r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: test.id, VolumePath: test.path})
			wantCode(t, err, test.code)
			if test.code == codes.OK && len(response.GetUsage()) != 2 {
				t.Errorf("usage: %v, want bytes and inodes", response.GetUsage())
			}
		})
	}
}

func TestListVolumesCodes(t *testing.T) {
	r := newRig(t, settings{})
	for _, token := range []string{"invalid-token", "after:", "after:../..", "vol", "after:A"} {
		_, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: token})
		wantCode(t, err, codes.Aborted, "starting_token")
	}
	_, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: -1})
	wantCode(t, err, codes.InvalidArgument, "max_entries -1")
}

// Calls that are not advertised return UNIMPLEMENTED.
func TestTheRestIsUnimplemented(t *testing.T) {
	r := newRig(t, settings{})
	calls := map[string]func() error{
		"ControllerPublishVolume": func() error {
			_, err := r.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{})
			return err
		},
		"CreateSnapshot": func() error {
			_, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{})
			return err
		},
		"ControllerExpandVolume": func() error {
			_, err := r.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{})
			return err
		},
		"NodeStageVolume": func() error {
			_, err := r.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{})
			return err
		},
		"NodeExpandVolume": func() error {
			_, err := r.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), codes.Unimplemented) })
	}
}
