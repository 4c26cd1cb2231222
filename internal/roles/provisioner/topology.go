package provisioner

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// TopologySettings say which topology is requested from the driver.
type TopologySettings struct {
	Strict    bool
	Immediate bool // --immediate-topology
	Assertive bool // --assertive-topology
	MaxTerms  int  // --max-topology-terms; 0 for no bound
}

// topologyFlags adds F-11 and F-12, and Purser's own (U-32, T-30).
func (p *Provisioner) topologyFlags(f *pflag.FlagSet) {
	t := &p.Topology
	f.BoolVar(&t.Strict, "strict-topology", false,
		"with a selected node, ask for a volume at this node only; without, ask for all places of the cluster, the node's first")
	f.BoolVar(&t.Immediate, "immediate-topology", true,
		"without a selected node, ask for all places of the cluster; without, the driver chooses")
	f.BoolVar(&t.Assertive, "assertive-topology", false,
		"take allowedTopologies of a class as a filter of the nodes' places, so that a class need not name every topology key; "+
			"without, they are the places that the driver is asked for")
	f.IntVar(&t.MaxTerms, "max-topology-terms", 0, "most places in one request, the preferred ones; 0 for no bound")
}

func (t TopologySettings) validate() []error {
	return []error{cli.Need(t.MaxTerms >= 0, "--max-topology-terms=%d: must not be negative", t.MaxTerms)}
}

func (t TopologySettings) rules() topology.Rules {
	return topology.Rules{Strict: t.Strict, Immediate: t.Immediate, Assertive: t.Assertive, MaxTerms: t.MaxTerms}
}

// topology reports whether topology is used: the driver supports it, and the gate is on (G-1).
func (w *builder) topology() bool {
	return w.Driver.HasTopology() && w.role.Gates.Enabled(GateTopology)
}

// readsNodes reports whether nodes are watched: for a driver with topology, except in an instance
// per node, which gets its topology from NodeGetInfo (T-31).
func (w *builder) readsNodes() bool {
	return w.topology() && !w.role.NodeDeployment.Enabled || w.role.Reap.Mode != ""
}

// attaches reports whether volumes of the driver have VolumeAttachments at all (W-5).
func (w *builder) attaches() bool {
	return w.Driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}
