package provision

import (
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// accessibility returns the topology requirement of the volume (T-10 to T-18). The selected node
// decides, whatever the binding mode of the class is by now (C-22). nil leaves the choice to the
// driver: a driver without topology (T-1), or one that announces topology while no node has one of
// its topology keys, as ceph-csi does.
func accessibility(s Snapshot) (*csi.TopologyRequirement, *verdict.Finding) {
	if !s.Driver.HasTopology {
		return nil, nil
	}
	claim, finding := placedClaim(s)
	if finding != nil || isKeyless(s, claim) {
		return nil, finding
	}
	requirement, err := topology.Requirement(claim, s.Options.Topology)
	switch {
	case errors.Is(err, topology.ErrNoKeys):
		return nil, nil
	case errors.Is(err, topology.ErrNoNode):
		return nil, &verdict.Finding{
			Reason:  verdict.TopologyUnknown,
			Message: fmt.Sprintf("CSI driver %q: %v", s.Driver.Name, err),
			Fix:     "Compare the topologyKeys of the CSINode objects with the labels of the Nodes",
		}
	case err != nil: // T-12
		return nil, &verdict.Finding{
			Reason:  verdict.ClassInvalid,
			Message: fmt.Sprintf("StorageClass %q: %v", s.Class.Name, err),
			Fix: "Add the topology to allowedTopologies of a new class, or let the pod run where the class " +
				"allows volumes",
		}
	}
	return requirement, nil
}

// placedClaim returns the input of [topology.Requirement] for the claim. A selected node without
// topology keys, while the driver registered some on other nodes, is not ready (T-22).
func placedClaim(s Snapshot) (topology.Claim, *verdict.Finding) {
	claim := topology.Claim{Name: s.Claim.Name, Allowed: s.Class.AllowedTopologies, Nodes: s.Nodes}
	node := selectedNode(s.Claim)
	if node == "" {
		return claim, nil
	}
	var err error
	claim.Selected, err = topology.OfNode(s.Node, s.CSINode, s.Driver.Name)
	if err == nil && claim.Selected == nil && topology.HasKeys(s.Nodes) {
		err = fmt.Errorf("driver %q registered no topology key on it, and did on other nodes", s.Driver.Name)
	}
	if err != nil {
		return claim, &verdict.Finding{
			Reason: verdict.NodeTopologyUnknown, Message: fmt.Sprintf("selected node %q: %v", node, err),
		}
	}
	return claim, nil
}

// isKeyless reports whether the driver registered no topology key on the selected node.
func isKeyless(s Snapshot, claim topology.Claim) bool {
	return selectedNode(s.Claim) != "" && claim.Selected == nil
}

// needsNodes reports whether the topology requirement depends on nodes other than the selected one,
// so that Snapshot.Nodes must be read.
func needsNodes(s Snapshot) bool {
	if !s.Driver.HasTopology || s.Claim == nil || s.Class == nil {
		return false
	}
	claim, finding := placedClaim(s)
	return finding == nil && (isKeyless(s, claim) || topology.NeedsNodes(claim, s.Options.Topology))
}

// LacksKeys reports whether the request has no topology requirement although the driver announces
// topology, because no node has one of its topology keys.
func LacksKeys(s Snapshot) bool {
	return s.has(verdict.Ref{What: ReadNodes}) && needsNodes(s) && !topology.HasKeys(s.Nodes)
}
