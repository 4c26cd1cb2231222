package driver

import (
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const testKey = "topology.csi.purser/node"

func places(nodes ...string) (topologies []*csi.Topology) {
	for _, node := range nodes {
		topologies = append(topologies, &csi.Topology{Segments: map[string]string{testKey: node}})
	}
	return topologies
}

// 3.1 CreateVolume: 8 if the requisite topology excludes this driver.
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

const testZone = "topology.kubernetes.io/zone"

func segments(pairs ...string) *csi.Topology {
	t := &csi.Topology{Segments: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		t.Segments[pairs[i]] = pairs[i+1]
	}
	return t
}

// Segments by flag: all of them hold for the node and for each volume, beside
// the segment of the node or instead of it.
func TestVolumesAreInTheSegmentsOfTheDriver(t *testing.T) {
	tests := []struct {
		why     string
		nodeKey string
		at      *csi.Topology // what is asked for
		fits    bool
	}{
		{"the zone", "", segments(testZone, "a"), true},
		{"another zone", "", segments(testZone, "b"), false},
		{"a segment of another driver", "", segments("other/rack", "r"), true},
		{"the zone, any node", testKey, segments(testZone, "a"), true},
		{"zone and node", testKey, segments(testZone, "a", testKey, "node-1"), true},
		{"the zone, another node", testKey, segments(testZone, "a", testKey, "node-2"), false},
		{"another zone, the node", testKey, segments(testZone, "b", testKey, "node-1"), false},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			r, _, _ := onShelf(t, settings{topologyKey: test.nodeKey, topology: map[string]string{testZone: "a"}})
			want := segments(testZone, "a")
			if test.nodeKey != "" {
				want.Segments[test.nodeKey] = "node-1"
			}
			node, err := r.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
			wantCode(t, err, codes.OK)
			request := createRequest("vol")
			request.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{test.at}}
			created, err := r.CreateVolume(t.Context(), request)
			if !test.fits {
				wantCode(t, err, codes.ResourceExhausted, testZone+"=a")
			} else {
				wantCode(t, err, codes.OK)
				if at := created.GetVolume().GetAccessibleTopology(); len(at) != 1 || !proto.Equal(at[0], want) {
					t.Errorf("the volume is at %v, want %v", at, want)
				}
			}
			if !proto.Equal(node.GetAccessibleTopology(), want) {
				t.Errorf("the node is at %v, want %v", node.GetAccessibleTopology(), want)
			}
			capacity, err := r.GetCapacity(t.Context(), &csi.GetCapacityRequest{AccessibleTopology: test.at})
			wantCode(t, err, codes.OK)
			if (capacity.GetAvailableCapacity() > 0) != test.fits {
				t.Errorf("capacity at %v: %v", test.at, capacity)
			}
		})
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
