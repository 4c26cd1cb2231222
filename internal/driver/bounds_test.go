package driver

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Row 25: what a caller sends is echoed in part only, in errors and in the log at any verbosity.
func TestLongRequestsAreEchoedInPart(t *testing.T) {
	var log journal
	r := newRig(t, settings{log: funcr.New(log.add, funcr.Options{Verbosity: 100})})
	long := strings.Repeat("n", 1<<20)
	named := createRequest(long)
	grouped := createRequest("vol")
	grouped.VolumeCapabilities[0].GetMount().VolumeMountGroup = long
	typed := createRequest("vol")
	typed.VolumeCapabilities[0].GetMount().FsType = long
	parameter := createRequest("vol")
	parameter.Parameters = map[string]string{long: long}
	many := createRequest("vol")
	for range 10_000 {
		many.VolumeCapabilities = append(many.VolumeCapabilities, mountCapability(writer))
	}
	for name, request := range map[string]*csi.CreateVolumeRequest{
		"name": named, "volume_mount_group": grouped, "fs_type": typed, "parameters": parameter, "volume_capabilities": many,
	} {
		_, err := r.CreateVolume(t.Context(), request)
		wantCode(t, err, codes.InvalidArgument, name)
		wantShort(t, err, 1000)
	}
	_, err := r.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: "vol", TargetPath: "/" + long, VolumeCapability: mountCapability(writer),
	})
	wantCode(t, err, codes.InvalidArgument, "target_path", "4095")
	wantShort(t, err, 1000)
	_, err = r.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: long})
	wantCode(t, err, codes.NotFound)
	wantShort(t, err, 1000)
	for _, line := range log.with("") {
		if len(line) > maxLogged+maxMessage {
			t.Errorf("a line of the log has %d bytes: %.200s", len(line), line)
		}
	}
}

func wantShort(t *testing.T, err error, most int) {
	t.Helper()
	if text := status.Convert(err).Message(); len(text) > most {
		t.Errorf("a message of %d bytes: %.200s", len(text), text)
	}
}
