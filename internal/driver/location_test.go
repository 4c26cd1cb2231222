package driver

import (
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

const testKey = "topology.csi.purser/node"

func places(nodes ...string) (topologies []*csi.Topology) {
	for _, node := range nodes {
		topologies = append(topologies, &csi.Topology{Segments: map[string]string{testKey: node}})
	}
	return topologies
}

// 3.1 CreateVolume: 8 where the topology leaves no place.
func TestVolumesAreOnThisNode(t *testing.T) {
	r, _, _ := onShelf(t, settings{topologyKey: testKey})
	tests := []struct {
		why   string
		wants *csi.TopologyRequirement
		code  codes.Code
	}{
		{"nothing", nil, codes.OK},
		{"anything", &csi.TopologyRequirement{}, codes.OK},
		{"here", &csi.TopologyRequirement{Requisite: places("node-1"), Preferred: places("node-1")}, codes.OK},
		{"here too", &csi.TopologyRequirement{Requisite: places("node-2", "node-1"), Preferred: places("node-2")}, codes.OK},
		{"elsewhere", &csi.TopologyRequirement{Requisite: places("node-2")}, codes.ResourceExhausted},
		{"rather elsewhere", &csi.TopologyRequirement{Preferred: places("node-2")}, codes.ResourceExhausted},
		{"of another driver", &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{"zone": "a"}}}}, codes.OK},
	}
	for _, test := range tests {
		request := createRequest(test.why)
		request.AccessibilityRequirements = test.wants
		response, err := r.CreateVolume(t.Context(), request)
		wantCode(t, err, test.code)
		if at := response.GetVolume().GetAccessibleTopology(); err == nil && (len(at) != 1 || at[0].GetSegments()[testKey] != "node-1") {
			t.Errorf("%s: the volume is at %v", test.why, at)
		}
	}
	for _, test := range []struct {
		at   *csi.Topology
		want bool
	}{{nil, true}, {places("node-1")[0], true}, {places("node-2")[0], false}} {
		capacity, err := r.GetCapacity(t.Context(), &csi.GetCapacityRequest{AccessibleTopology: test.at})
		wantCode(t, err, codes.OK)
		if (capacity.GetAvailableCapacity() > 0) != test.want {
			t.Errorf("at %v: %v", test.at, capacity)
		}
	}
	node, err := r.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	wantCode(t, err, codes.OK)
	if node.GetAccessibleTopology().GetSegments()[testKey] != "node-1" || node.GetMaxVolumesPerNode() != 7 {
		t.Errorf("node info: %v", node)
	}
}

func TestAllFeaturesAreAdvertised(t *testing.T) {
	r, _, _ := onShelf(t, settings{topologyKey: testKey})
	want := []string{
		"controller CLONE_VOLUME", "controller CREATE_DELETE_SNAPSHOT", "controller CREATE_DELETE_VOLUME", "controller EXPAND_VOLUME",
		"controller GET_CAPACITY", "controller GET_SNAPSHOT", "controller GET_VOLUME", "controller GET_VOLUME_HEALTH",
		"controller LIST_SNAPSHOTS", "controller LIST_VOLUMES", "controller LIST_VOLUME_HEALTH", "controller MODIFY_VOLUME",
		"controller SINGLE_NODE_MULTI_WRITER",
		"node EXPAND_VOLUME", "node GET_VOLUME_HEALTH", "node GET_VOLUME_STATS", "node SINGLE_NODE_MULTI_WRITER", "node STAGE_UNSTAGE_VOLUME",
	}
	if got := advertised(t, r); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	plugin, err := r.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	for _, part := range []string{"VOLUME_ACCESSIBILITY_CONSTRAINTS", "GROUP_CONTROLLER_SERVICE", "ONLINE"} {
		if !strings.Contains(plugin.String(), part) {
			t.Errorf("plugin capabilities %v lack %s", plugin, part)
		}
	}
	group, err := r.GroupControllerGetCapabilities(t.Context(), &csi.GroupControllerGetCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	if len(group.GetCapabilities()) != 1 {
		t.Errorf("group capabilities: %v", group)
	}
}
