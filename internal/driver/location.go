package driver

import (
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// location is where the volumes of a Local backend are: on this node. Its zero
// value says that they can be reached from everywhere, or that nobody is told.
type location struct{ key, node string }

func (l location) matters() bool { return l.key != "" }

// topology is nil where the location does not matter.
func (l location) topology() *csi.Topology {
	if !l.matters() {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{l.key: l.node}}
}

// topologies is topology as a list.
func (l location) topologies() []*csi.Topology {
	if !l.matters() {
		return nil
	}
	return []*csi.Topology{l.topology()}
}

// covers says whether a topology includes this node: a segment that this
// driver does not know says nothing about it.
func (l location) covers(t *csi.Topology) bool {
	value, named := t.GetSegments()[l.key]
	return !named || value == l.node
}

// check refuses requirements that a volume on this node does not fulfil.
// Whatever is preferred, there is no choice.
func (l location) check(r *csi.TopologyRequirement) error {
	if r == nil {
		return nil
	}
	if !l.matters() {
		return fault.Invalid.Errorf("accessibility_requirements: this driver does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS; leave them out")
	}
	wanted := r.GetRequisite()
	if len(wanted) == 0 {
		wanted = r.GetPreferred()
	}
	if len(wanted) == 0 || slices.ContainsFunc(wanted, l.covers) {
		return nil
	}
	// "CreateVolume Errors": unable to provision in accessible_topology.
	return fault.Exhausted.Errorf("accessibility_requirements: none of the %d topologies has %s=%q, and volumes of this driver are on that node only",
		len(wanted), l.key, l.node)
}

// mistake says why a cluster cannot store the location, which becomes a label
// of the node; empty when it can.
func (l location) mistake() string {
	if !l.matters() || labelValue.MatchString(l.node) {
		return ""
	}
	return fmt.Sprintf("volumes are tied to this node by the topology %s, whose values have at most 63 letters, "+
		"digits, dots, dashes and underscores, with a letter or digit at both ends; choose another id or turn topology off", l.key)
}
