package driver

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/records"
)

func inZones(names ...string) (topologies []*csi.Topology) {
	for _, name := range names {
		topologies = append(topologies, &csi.Topology{Segments: map[string]string{ZoneKey: name}})
	}
	return topologies
}

// One driver with two zones: a volume is in the first preferred zone with room, stays there, and
// makes room when it goes.
func TestZones(t *testing.T) {
	r := newRig(t, settings{zones: []records.Zone{{Name: "a", Bytes: 10 << 20}, {Name: "b"}}})
	prefer := func(name string, wants *csi.TopologyRequirement) (*csi.Volume, error) {
		request := createRequest(name)
		request.CapacityRange = &csi.CapacityRange{RequiredBytes: 6 << 20}
		request.AccessibilityRequirements = wants
		response, err := r.CreateVolume(t.Context(), request)
		return response.GetVolume(), err
	}
	ab := &csi.TopologyRequirement{Requisite: inZones("a", "b"), Preferred: inZones("a", "b")}
	onlyA := &csi.TopologyRequirement{Requisite: inZones("a")}
	var first string
	for _, test := range []struct {
		why, name string
		wants     *csi.TopologyRequirement
		zone      string
		code      codes.Code
	}{
		{"the preferred zone", "one", ab, "a", codes.OK},
		{"again", "one", ab, "a", codes.OK},
		{"it is elsewhere", "one", &csi.TopologyRequirement{Requisite: inZones("b")}, "", codes.AlreadyExists},
		{"the preferred zone is full", "two", ab, "b", codes.OK},
		{"the only zone is full", "three", onlyA, "", codes.ResourceExhausted},
		{"no zone of this driver", "three", &csi.TopologyRequirement{Requisite: inZones("x")}, "", codes.ResourceExhausted},
		{"any zone", "four", nil, "b", codes.OK},
	} {
		volume, err := prefer(test.name, test.wants)
		wantCode(t, err, test.code)
		if at := volume.GetAccessibleTopology(); err == nil && (len(at) != 1 || at[0].GetSegments()[ZoneKey] != test.zone) {
			t.Errorf("%s: the volume is at %v, want zone %s", test.why, at, test.zone)
		}
		if test.name == "one" && err == nil {
			first = volume.GetVolumeId()
		}
	}
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: first})
	wantCode(t, err, codes.OK)
	_, err = prefer("three", onlyA)
	wantCode(t, err, codes.OK)
	for name, want := range map[string]int64{"a": 4 << 20, "x": 0} {
		capacity, err := r.GetCapacity(t.Context(), &csi.GetCapacityRequest{AccessibleTopology: inZones(name)[0]})
		wantCode(t, err, codes.OK)
		if capacity.GetAvailableCapacity() != want {
			t.Errorf("zone %s: %v, want %d", name, capacity, want)
		}
	}
}
