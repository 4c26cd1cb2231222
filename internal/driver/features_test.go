package driver

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// direct is a backend with as little as New allows.
type direct struct{ backend.Backend }

func (d direct) Source(ctx context.Context, id backend.ID) (string, error) {
	return d.Backend.(backend.Direct).Source(ctx, id)
}

func (d direct) Recover(ctx context.Context) error {
	return d.Backend.(backend.Recoverer).Recover(ctx)
}

func advertised(t *testing.T, r *rig) (names []string) {
	t.Helper()
	controller, err := r.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	for _, c := range controller.GetCapabilities() {
		names = append(names, "controller "+c.GetRpc().GetType().String())
	}
	node, err := r.NodeGetCapabilities(t.Context(), &csi.NodeGetCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	for _, c := range node.GetCapabilities() {
		names = append(names, "node "+c.GetRpc().GetType().String())
	}
	slices.Sort(names)
	return names
}

func TestDirectoriesAdvertise(t *testing.T) {
	want := []string{
		"controller CREATE_DELETE_VOLUME", "controller GET_CAPACITY", "controller GET_VOLUME", "controller LIST_VOLUMES", "controller SINGLE_NODE_MULTI_WRITER",
		"node GET_STORAGE_HEALTH", "node GET_VOLUME_STATS", "node SINGLE_NODE_MULTI_WRITER",
	}
	if got := advertised(t, newRig(t, settings{})); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A backend without a feature: not advertised, and UNIMPLEMENTED.
func TestABareBackendAdvertisesTheMinimum(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r := newRig(t, settings{state: state, backend: direct{directories(t, state)}})
	want := []string{
		"controller CREATE_DELETE_VOLUME", "controller GET_VOLUME", "controller SINGLE_NODE_MULTI_WRITER", "node SINGLE_NODE_MULTI_WRITER",
	}
	if got := advertised(t, r); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	_, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	wantCode(t, err, codes.Unimplemented)
	_, err = r.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	wantCode(t, err, codes.Unimplemented)
	_, err = r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{})
	wantCode(t, err, codes.Unimplemented)
	_, err = r.Probe(t.Context(), &csi.ProbeRequest{})
	wantCode(t, err, codes.OK)
	id := r.create(t, "vol")
	r.publish(t, id, "target")
}

func TestIdentity(t *testing.T) {
	r := newRig(t, settings{})
	info, err := r.GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{})
	wantCode(t, err, codes.OK)
	if info.GetName() != DefaultName || info.GetVendorVersion() != "v1.2.3" {
		t.Errorf("info: %v", info)
	}
	plugin, err := r.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	if c := plugin.GetCapabilities(); len(c) != 1 || c[0].GetService().GetType() != csi.PluginCapability_Service_CONTROLLER_SERVICE {
		t.Errorf("plugin capabilities: %v", c)
	}
	node, err := r.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	wantCode(t, err, codes.OK)
	if node.GetNodeId() != "node-1" || node.GetMaxVolumesPerNode() != 0 || node.GetAccessibleTopology() != nil {
		t.Errorf("node info: %v", node)
	}
}
