package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/core/mounting"
	"github.com/purser-csi/purser/internal/node"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
)

// Node is the role node: what a kubelet's volume manager does, for nodes without a kubelet.
type Node struct {
	Version string
	Log     logr.Logger // overrides the logging flags when set, for the role inside of `up`

	process.APIAccess

	NodeName   string
	RootDir    string
	Pods       string
	Timeout    time.Duration
	Workers    uint
	PerDriver  uint
	StatsEvery time.Duration
	RetryStart time.Duration
	RetryMax   time.Duration

	process.HTTPSettings
	Logging *logsapi.LoggingConfiguration

	Several  []Place // takes the place of NodeName and RootDir, for the nodes of `up`
	Started  func()  // is called once the caches are filled; may be nil
	Registry *prometheus.Registry
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
	podsLeave  = "leave"
)

// DefaultRoot is a kubelet's root directory.
const DefaultRoot = "/var/lib/kubelet"

// New returns the role with the default of every setting.
func New() *Node {
	n := &Node{Logging: logsapi.NewLoggingConfiguration(), Registry: prometheus.NewRegistry()}
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
		f.StringVar(&n.NodeName, "node-name", hostname(), "`name` of the node; the Node object is made by another program")
		f.StringVar(&n.RootDir, "root-dir", DefaultRoot, "`folder` of pods, plugins and plugins_registry, as a kubelet's --root-dir")
		f.StringVar(&n.Pods, "pods", podsFinish, "what becomes of pods beside their volumes: "+podsFinish+
			" deletes terminating pods whose volumes are unpublished and says in the status of others that nothing runs; "+
			podsLeave+" leaves them to the program that runs their containers")
	})
	cli.Grouped(f, "Calls", func(f *pflag.FlagSet) {
		f.DurationVar(&n.Timeout, "timeout", node.DefaultTimeout, "for each call to a driver")
		f.UintVar(&n.Workers, "worker-threads", 64, "volumes that are reconciled in parallel")
		f.UintVar(&n.PerDriver, "worker-threads-per-driver", 16, "volumes of one driver that are reconciled in parallel")
		f.DurationVar(&n.StatsEvery, "volume-stats-agg-period", node.DefaultStatsEvery,
			"how often a driver is asked for the usage of each volume (kubelet_volume_stats_*); 0 or less for never")
		retry := cli.RetryDelays{First: &n.RetryStart, Longest: &n.RetryMax}
		retry.AddFlags(f, 500*time.Millisecond, 2*time.Minute+2*time.Second)
	})
	cli.Grouped(f, "API server", n.APIAccess.AddFlags)
	cli.Grouped(f, "Metrics and health", n.HTTPSettings.AddFlags)
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
			cli.Need(n.Pods == podsFinish || n.Pods == podsLeave, "--pods=%q: must be %s or %s", n.Pods, podsFinish, podsLeave),
			cli.Need(n.Timeout > 0, "--timeout=%s: must be more than 0", n.Timeout),
			cli.Need(n.Workers > 0, "--worker-threads=0: must be at least 1, or nothing is worked on"),
			cli.Need(n.PerDriver > 0, "--worker-threads-per-driver=0: must be at least 1, or nothing is worked on"),
			cli.Need(n.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", n.RetryStart),
			cli.Need(n.RetryMax >= n.RetryStart,
				"--retry-interval-max=%s: must not be less than --retry-interval-start=%s", n.RetryMax, n.RetryStart),
		},
		n.APIAccess.Validate(),
		n.HTTPSettings.Validate(&cli.Notices{}),
		cli.ValidateLogging(n.Logging),
	)...)
}

// places returns the nodes that the role serves.
func (n *Node) places() []Place {
	if len(n.Several) > 0 {
		return n.Several
	}
	return []Place{{Name: n.NodeName, Root: filepath.Clean(n.RootDir)}}
}

func (n *Node) runtime() mounting.Runtime {
	if n.Pods == podsLeave {
		return mounting.ForeignContainers
	}
	return mounting.NoContainers
}

// lockName is the file below a root directory that one agent holds at a time.
const lockName = "purser-node.lock"

func lockPath(root string) (string, error) {
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("--root-dir=%s: %w", root, err)
	}
	return filepath.Join(root, lockName), nil
}
