package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/node"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Node is the role node: what a kubelet's volume manager does, for nodes without a kubelet.
type Node struct {
	sidecar.Config

	NodeName   string
	RootDir    string
	Pods       string
	PerDriver  uint
	StatsEvery time.Duration

	Several []Place // takes the place of NodeName and RootDir, for the nodes of `up`
}

// Place is one node that the role serves.
type Place struct {
	Name  string
	Root  string
	Given []node.GivenDriver // drivers that do not register by a socket
}

// Values of --pods.
const (
	podsFinish = "finish"
	// PodsReport has pods reported as ready whose containers do not run.
	PodsReport = "report"
	podsLeave  = "leave"
)

// DefaultRoot is a kubelet's root directory.
const DefaultRoot = "/var/lib/kubelet"

// New returns the role with the default of every setting.
func New() *Node {
	n := &Node{Config: sidecar.NewConfig()}
	n.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return n
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	n := New()
	n.Version = program.Version
	return cli.NewRoleCommand(program, n, &cobra.Command{
		Use:   "node",
		Short: "Mount the CSI volumes of the pods on a node without a kubelet",
		Long: `Mount the CSI volumes of the pods on a node without a kubelet, such as a node
for development or a virtual node.

It does a kubelet's work for volumes: drivers register through sockets in
plugins_registry, volumes are staged, published, expanded, unpublished and
unstaged, and status.volumesInUse of the node is written. Folders and metadata
files are those of a kubelet, so that a kubelet can take over the volumes, and
the agent those of a kubelet. Never run it on a node with a running kubelet.

It runs no containers. A deleted pod is removed when its volumes are
unpublished, unless --pods=leave.`,
		Example: `  purser node --node-name n1 --root-dir /var/lib/purser-node --kubeconfig ~/.kube/config`,
	})
}

// AddFlags binds every setting to its flag.
func (n *Node) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Node", func(f *pflag.FlagSet) {
		f.StringVar(
			&n.NodeName, "node-name", hostname(), "`name` of the node; the Node object is made by another program",
		)
		f.StringVar(
			&n.RootDir, "root-dir", DefaultRoot,
			"`folder` of pods, plugins and plugins_registry, as a kubelet's --root-dir",
		)
		f.StringVar(&n.Pods, "pods", podsFinish, "what becomes of pods beside their volumes: "+podsFinish+
			" deletes terminating pods whose volumes are unpublished and says in the status of others that nothing "+
			"runs; "+
			PodsReport+" also reports pods whose volumes are published as running and ready, although nothing runs, "+
			"so that StatefulSets and Deployments go on; "+
			podsLeave+" leaves them to the program that runs their containers")
	})
	cli.Grouped(f, "Calls", func(f *pflag.FlagSet) {
		f.DurationVar(&n.Timeout, "timeout", node.DefaultTimeout, "for each call to a driver")
		f.UintVar(&n.Workers, "worker-threads", 64, "volumes that are reconciled in parallel")
		f.UintVar(
			&n.PerDriver, "worker-threads-per-driver", 16, "volumes of one driver that are reconciled in parallel",
		)
		f.DurationVar(&n.StatsEvery, "volume-stats-agg-period", node.DefaultStatsEvery,
			"how often a driver is asked for the usage of each volume (kubelet_volume_stats_*); 0 or less for never")
		// A kubelet takes a negative period for never.
		cli.Ranged(f, cli.Range{Most: "8760h"}, "volume-stats-agg-period")
		retry := cli.RetryDelays{First: &n.RetryStart, Longest: &n.RetryMax}
		retry.AddFlags(f, 500*time.Millisecond, 2*time.Minute+2*time.Second)
	})
	cli.Grouped(f, "API server", n.APIAccess.AddFlags)
	cli.Grouped(f, "Metrics and health", n.HTTPSettings.AddFlags)
	cli.Grouped(f, "Traces", n.AddTraceFlags)
	cli.Grouped(f, "Logs", cli.LoggingFlags(n.Logging))
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return strings.ToLower(name)
}

// Validate implements cli.Role.
func (n *Node) Validate() error {
	problems := validation.IsDNS1123Subdomain(n.NodeName)
	return errors.Join(slices.Concat(
		[]error{
			cli.Need(len(problems) == 0, "--node-name=%q: %s", n.NodeName, strings.Join(problems, "; ")),
			cli.Need(filepath.IsAbs(n.RootDir) && filepath.Clean(n.RootDir) != "/",
				"--root-dir=%q: give an absolute path other than /", n.RootDir),
			cli.Need(
				runtimes[n.Pods] != nil, "--pods=%q: must be %s, %s or %s", n.Pods, podsFinish, PodsReport, podsLeave,
			),
			cli.Need(n.Timeout > 0, "--timeout=%s: must be more than 0", n.Timeout),
			cli.Need(n.PerDriver > 0, "--worker-threads-per-driver=0: must be at least 1, or nothing is worked on"),
		},
		n.ValidatePace("worker-threads"), n.ValidateShared(),
	)...)
}

// places returns the nodes that the role serves.
func (n *Node) places() []Place {
	if len(n.Several) > 0 {
		return n.Several
	}
	return []Place{{Name: n.NodeName, Root: filepath.Clean(n.RootDir)}}
}

// runtimes has the meaning of each value of --pods.
var runtimes = map[string]*mounting.Runtime{
	podsFinish: new(mounting.NoContainers),
	PodsReport: new(mounting.ReportedContainers),
	podsLeave:  new(mounting.ForeignContainers),
}

// lockName is the file below a root directory that one agent holds at a time.
const lockName = "purser-node.lock"

func lockPath(root string) (string, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("--root-dir=%s: %w", root, err)
	}
	return filepath.Join(root, lockName), nil
}
