package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// location is the topology of the volumes of this driver: all its segments hold for each volume and
// for this node. If it is empty, the topology is not reported.
type location map[string]string

// locationOf merges the segments that the operator gave with that of the node.
// The key of the node is that of Config.TopologyKey.
func locationOf(c Config) location {
	l := location{}
	maps.Copy(l, c.Topology)
	if len(c.Zones) > 0 { // the node of this driver is in the first zone, volumes are in any
		l[ZoneKey] = c.Zones[0].Name
		return l
	}
	if c.TopologyKey != "" {
		l[c.TopologyKey] = c.NodeID
	}
	return l
}

func (l location) matters() bool { return len(l) > 0 }

// topology is nil where the location does not matter.
func (l location) topology() *csi.Topology {
	if !l.matters() {
		return nil
	}
	return &csi.Topology{Segments: maps.Clone(l)}
}

// topologies is topology as a list.
func (l location) topologies() []*csi.Topology {
	if !l.matters() {
		return nil
	}
	return []*csi.Topology{l.topology()}
}

// covers says whether a topology includes the volumes of this driver: a
// segment that this driver does not know says nothing about them.
func (l location) covers(t *csi.Topology) bool {
	for key, value := range l {
		if other, named := t.GetSegments()[key]; named && other != value {
			return false
		}
	}
	return true
}

// check refuses requirements that a volume here does not fulfil. Preferences are ignored, since all
// volumes have the same topology.
func (l location) check(r *csi.TopologyRequirement) error {
	if r == nil {
		return nil
	}
	if !l.matters() {
		return fault.Invalid.Errorf(
			"accessibility_requirements: this driver does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS; leave them " +
				"out",
		)
	}
	wanted := r.GetRequisite()
	if len(wanted) == 0 {
		wanted = r.GetPreferred()
	}
	if len(wanted) == 0 || slices.ContainsFunc(wanted, l.covers) {
		return nil
	}
	// "CreateVolume Errors": unable to provision in accessible_topology.
	return fault.Exhausted.Errorf(
		"accessibility_requirements: none of the %d topologies includes %s, where all volumes of this driver are",
		len(wanted),
		l,
	)
}

// String lists the segments in the order of their keys.
func (l location) String() string {
	segments := make([]string, 0, len(l))
	for _, key := range slices.Sorted(maps.Keys(l)) {
		segments = append(segments, key+"="+l[key])
	}
	return strings.Join(segments, ",")
}

// nodeIDMistake says why the node's id cannot be the value of a topology
// segment, which becomes a label of the node; empty when it can.
func nodeIDMistake(key, nodeID string) string {
	if key == "" || labelValue.MatchString(nodeID) {
		return ""
	}
	return fmt.Sprintf("volumes are tied to this node by the topology %s, whose values have at most 63 letters, "+
		"digits, dots, dashes and underscores, with a letter or digit at both ends; choose another id or turn "+
		"topology off", key)
}
