package provisioner

import (
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/topology"
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
		"with a selected node, request only the topology of this node; otherwise request those of all nodes, that of "+
			"the selected node first")
	f.BoolVar(&t.Immediate, "immediate-topology", true,
		"without a selected node, request the topologies of all nodes; if false, the driver chooses")
	f.BoolVar(&t.Assertive, "assertive-topology", false,
		"use allowedTopologies of a class as a filter for the topologies of nodes, so that a class need not name "+
			"every topology key; otherwise they are requested as they are")
	f.IntVar(
		&t.MaxTerms, "max-topology-terms", 0,
		"largest number of topologies in one request; the preferred ones are kept; 0 for no limit",
	)
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
func (w *builder) readsNodes() bool { return w.topology() && !w.role.NodeDeployment.Enabled }
