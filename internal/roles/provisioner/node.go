package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// NodeDeployment has the settings of one provisioner per node (F-22 to F-25).
type NodeDeployment struct {
	Enabled          bool
	ImmediateBinding bool
	BaseDelay        time.Duration
	MaxDelay         time.Duration
	NodeName         string // empty for the environment variable NODE_NAME
}

func (n *NodeDeployment) flags(f *pflag.FlagSet) {
	f.BoolVar(&n.Enabled, "node-deployment", false,
		"work only for volumes of the node in the environment variable NODE_NAME, through the driver on that node; "+
			"run one instance on each node")
	f.BoolVar(&n.ImmediateBinding, "node-deployment-immediate-binding", true,
		"also provision claims of classes with immediate binding, which have no selected node")
	f.DurationVar(
		&n.BaseDelay, "node-deployment-base-delay", 20*time.Second,
		"longest time that an instance waits before it first competes for such a claim",
	)
	f.DurationVar(
		&n.MaxDelay, "node-deployment-max-delay", time.Minute,
		"longest time that it waits after other instances were first, or if its node has no room",
	)
	cli.Ranged(f, cli.Range{Least: "0s", Most: "8760h", With: []string{"node-deployment"}},
		"node-deployment-base-delay", "node-deployment-max-delay")
}

// node returns the name of the node of this instance.
func (n *NodeDeployment) node() string { return cmp.Or(n.NodeName, os.Getenv(envNodeName)) }

func (n *NodeDeployment) validate() []error {
	if !n.Enabled {
		return nil
	}
	return []error{
		cli.Need(n.node() != "",
			"--node-deployment: the environment variable NODE_NAME is not set; set it to the node's name, as with "+
				"valueFrom.fieldRef.fieldPath spec.nodeName"),
		cli.Need(n.BaseDelay >= 0, "--node-deployment-base-delay=%s: must not be negative", n.BaseDelay),
		cli.Need(
			n.MaxDelay >= n.BaseDelay,
			"--node-deployment-max-delay=%s: must not be less than --node-deployment-base-delay=%s", n.MaxDelay,
			n.BaseDelay,
		),
	}
}

// validateNode lists the settings that cannot be combined with one instance per node.
func (p *Provisioner) validateNode() []error {
	together := p.NodeDeployment.Enabled && p.InProcess.Queue != nil
	return append(p.NodeDeployment.validate(),
		cli.Need(!p.NodeDeployment.Enabled || p.LeaseName == "",
			"--leader-election-lease-name=%s: all instances of --node-deployment would share "+
				"the lease, and one of them would work; leave it out", p.LeaseName),
		cli.Need(
			!together,
			"--node-deployment: cannot be given to `purser plane`; run `purser csi-provisioner` on each node, and "+
				"`purser controllers` once",
		))
}

// PlaceName returns a name of an object of this instance that the instances of other nodes do not
// share: each has a journal, and a lease where it takes one.
func (p *Provisioner) PlaceName(name string) string {
	if !p.NodeDeployment.Enabled {
		return name
	}
	return name + "-" + p.NodeDeployment.node()
}

// leaseName is upstream's, followed by the node where there is one instance for each.
func (p *Provisioner) leaseName(driver string) string {
	return p.PlaceName(process.DriverLeaseName(driver))
}

// place is the node of an instance and its topology, as the driver returned them.
type place struct {
	driver string
	node   provision.NodeOptions
}

func (at place) has(pv *corev1.PersistentVolume) bool {
	return provision.IsOnNode(pv, at.node, at.driver)
}

// trim returns the cache transform: that of a provisioner by itself, unless the process has more roles.
// The cache starts after NodeGetInfo.
func (p *Provisioner) trim(
	_ context.Context, _ *sidecar.Sidecar, table toolscache.TransformFunc,
) toolscache.TransformFunc {
	rest := kube.Trim
	if len(p.Hosted) > 0 {
		rest = table
	}
	if !p.NodeDeployment.Enabled {
		return rest
	}
	p.at = &atomic.Pointer[place]{}
	return kube.TrimForNode(func(pv *corev1.PersistentVolume) bool {
		at := p.at.Load()
		return at != nil && at.has(pv)
	}, rest)
}

// findPlace calls NodeGetInfo for the topology of the node (ST-10).
func (w *builder) findPlace(ctx context.Context) error {
	if !w.role.NodeDeployment.Enabled {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.Conn.Timeout())
	defer cancel()
	info, err := w.Conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf(
			"--node-deployment: the driver at --csi-address=%s does not tell where its node is: %w", w.role.CSIAddress,
			err,
		)
	}
	d := w.role.NodeDeployment
	at := &place{driver: w.Driver.Name, node: provision.NodeOptions{
		Name: d.node(), Immediate: d.ImmediateBinding, BaseDelay: d.BaseDelay, MaxDelay: d.MaxDelay,
	}}
	if w.topology() {
		at.node.Segments = info.GetAccessibleTopology().GetSegments()
	}
	w.role.at.Store(at)
	return nil
}

// nodeOptions returns the options of the instance's node; the zero value without --node-deployment.
func (p *Provisioner) nodeOptions() provision.NodeOptions {
	if p.at == nil {
		return provision.NodeOptions{}
	}
	return p.at.Load().node
}

// readers returns the informer cache and the live reader, in an instance per node only with the
// volumes of this node. all also has the volumes of other nodes if the driver has no topology: one
// backend may then have the volumes of all nodes, and a handle names the same volume on each.
func (w *builder) readers() (cached *kube.Overlay, live, all client.Reader) {
	cached, live = w.Cached, w.Manager.GetAPIReader()
	if !w.role.NodeDeployment.Enabled {
		return cached, live, live
	}
	here := kube.SomeVolumes(live, w.role.at.Load().has)
	if all = live; w.topology() {
		all = here
	}
	return cached.Over(kube.SomeVolumes(w.Manager.GetClient(), kube.HasSource)), here, all
}
