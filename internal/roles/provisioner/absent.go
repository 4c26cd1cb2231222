package provisioner

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// What follows are settings of features that are not there yet. Their flags are accepted with any
// value, since manifests carry them; the two flags that switch a feature on are refused, since a
// start without it would be a silent difference (docs/limitations.md).

// NodeDeployment are the settings of one provisioner per node (F-22 to F-25).
type NodeDeployment struct {
	Enabled          bool
	ImmediateBinding bool
	BaseDelay        time.Duration
	MaxDelay         time.Duration
}

func (n *NodeDeployment) flags(f *pflag.FlagSet) {
	f.BoolVar(
		&n.Enabled,
		"node-deployment",
		false,
		"work only for volumes of the node in the environment variable NODE_NAME; refused by this version",
	)
	f.BoolVar(
		&n.ImmediateBinding,
		"node-deployment-immediate-binding",
		true,
		"also for claims that no node was selected for",
	)
	f.DurationVar(
		&n.BaseDelay,
		"node-deployment-base-delay",
		20*time.Second,
		"first delay before an instance takes such a claim",
	)
	f.DurationVar(&n.MaxDelay, "node-deployment-max-delay", time.Minute, "longest such delay")
}

func (n *NodeDeployment) validate() []error {
	return []error{cli.Need(!n.Enabled, "--node-deployment: this version does not work per node yet; "+
		"run one provisioner with --leader-election beside the driver's controller, or keep upstream's image for this driver")}
}
