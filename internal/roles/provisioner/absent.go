package provisioner

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// What follows are settings of features that are not there yet. Their flags are accepted with any
// value, since manifests carry them; the two flags that switch a feature on are refused, since a
// start without it would be a silent difference (docs/limitations.md).

// Capacity are the settings of CSIStorageCapacity objects (F-9, F-16 to F-21).
type Capacity struct {
	Enabled          bool
	ImmediateBinding bool
	Workers          uint
	PollInterval     time.Duration
	OwnerLevel       int
	KubeAPIQPS       float32
	KubeAPIBurst     int
}

func (c *Capacity) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.Enabled, "enable-capacity", false, "publish how much room the storage has; refused by this version")
	f.BoolVar(&c.ImmediateBinding, "capacity-for-immediate-binding", false, "also for classes with immediate binding")
	f.UintVar(&c.Workers, "capacity-threads", 1, "capacities that are asked for at once")
	f.DurationVar(&c.PollInterval, "capacity-poll-interval", time.Minute, "how often capacities are asked for again")
	f.IntVar(
		&c.OwnerLevel,
		"capacity-ownerref-level",
		1,
		"owner of the objects: -1 none, 0 the pod, 1 the pod's controller, 2 the controller's own, such as a Deployment",
	)
	f.Float32Var(&c.KubeAPIQPS, "kube-api-capacity-qps", 1, "API requests per second for capacities")
	f.IntVar(&c.KubeAPIBurst, "kube-api-capacity-burst", 5, "API requests at once for capacities")
}

func (c *Capacity) validate() []error {
	return []error{
		cli.Need(!c.Enabled, "--enable-capacity: this version does not publish CSIStorageCapacity objects yet; "+
			"remove the flag, and set spec.storageCapacity to false in the CSIDriver object, or the scheduler waits for them"),
	}
}

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
