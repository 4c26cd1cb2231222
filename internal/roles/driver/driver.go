package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry/tracing"
)

// Driver is the role driver: a CSI plugin with all services in one process.
type Driver struct {
	Version string
	Log     logr.Logger       // overrides the logging flags when set, for the driver inside of `up`
	Notice  func(text string) // receives messages for the user about the start
	Tracing *tracing.Tracing  // of the process; nil for what the environment says

	Endpoint string
	StateDir string
	NodeID   string
	Name     string
	Backend  string   // one of backends; empty leaves it to the machine
	Topology []string // segments; "true" stands for that of the node, "false" for none
	Zones    Zones    // --virtual-zones
	Attach   bool
	// AttachNodes are the nodes that can reach the volumes; "*" for every node.
	AttachNodes []string
	Loopfile    loopfileSettings

	RegistrationDir    string
	RegistrationSocket string // the CSI socket as the kubelet sees it; empty when it sees it where we do

	HTTPEndpoint string
	MetricsPath  string
	Pprof        bool
	process.SecureSettings
	process.APIAccess // for the reviews of --metrics-secure

	Logging *logsapi.LoggingConfiguration

	Listened func(address string) // receives the address that HTTP is served at; may be nil
}

// loopfileSettings are the flags of one backend.
type loopfileSettings struct {
	OverCommit  float64
	MaxVolumes  int64
	FreezeBound time.Duration
}

// New has the default of every setting.
func New() *Driver {
	d := &Driver{Logging: logsapi.NewLoggingConfiguration()}
	d.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return d
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	d := New()
	d.Version = program.Version
	d.Notice = func(text string) { fmt.Fprintln(program.Out, text) }
	c := &cobra.Command{
		Use: "driver", GroupID: cli.GroupRun, Args: cli.NoArguments,
		Short: "A CSI driver that keeps volumes on this machine",
		Long: `A CSI driver with Identity, Controller and Node services in one process.

As root its volumes are image files below the state directory, attached as loop
devices: with a hard size, with a filesystem or raw, with snapshots and clones.
If that is not possible, they are directories without a size limit.

It registers with a kubelet itself and serves liveness probes over HTTP, so that
no sidecars are needed for these.

` + loopHelp,
		Example: `  purser driver --endpoint unix:///run/csi/csi.sock --state-dir /var/lib/volumes

  # for a kubelet
  purser driver --endpoint unix:///var/lib/kubelet/plugins/csi.purser/csi.sock \
    --registration-dir /var/lib/kubelet/plugins_registry --http-endpoint :9808`,
		RunE: cli.Run(d),
	}
	d.AddFlags(c.Flags())
	return c
}

// loopHelp lists the parameters of classes. The backend refuses all others by name.
const loopHelp = `Parameters of a StorageClass for loop images:
  csi.storage.k8s.io/fstype  ext4 (default), xfs or btrfs
  provisioning               thin (default), or thick: allocated at the creation
  discard                    whether the space of deleted files returns to the
                             pool; true by default, for thick volumes false
  overCommit                 a limit below --loopfile-over-commit for this class
provisioning and discard can be in a VolumeAttributesClass too. Snapshots and
clones share space if the state directory is on xfs or btrfs; otherwise they are
full copies.`

// AddFlags binds every setting to its flag.
func (d *Driver) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Driver", func(f *pflag.FlagSet) {
		f.StringVar(&d.Endpoint, "endpoint", "", "`socket` to serve on, such as unix:///run/csi/csi.sock (required)")
		f.StringVar(&d.StateDir, "state-dir", defaultStateDir(), "`folder` for volumes and their state")
		f.StringVar(&d.NodeID, "node-id", hostname(), "node `name` of this machine in the cluster")
		f.StringVar(&d.Name, "driver-name", driver.DefaultName, "`name` of the driver, as StorageClasses refer to it")
		f.StringVar(&d.Backend, "backend", "", "`kind` of storage: "+strings.Join(backends, ", ")+
			"; by default loopfile where this process may use loop devices, else directory; a state directory keeps "+
			"the kind that it began with")
		f.StringSliceVar(
			&d.Topology,
			"topology",
			[]string{"true"},
			"where volumes can be reached: true for this machine only, by the topology key "+
				"topology.DRIVER-NAME/node; false to announce nothing; or a `segment` KEY=VALUE, such as "+
				"topology.kubernetes.io/zone=a, which replaces the key of the machine unless true is given as well; "+
				"may be given several times",
		)
		f.Var(
			&d.Zones,
			"virtual-zones",
			"divide the volumes of this driver among `zones`, each with a size where it has one, such as a=10Gi,b,c: "+
				"for a cluster whose virtual nodes are all on this machine; replaces --topology, the key is "+
				"topology.kubernetes.io/zone",
		)
		f.BoolVar(
			&d.Attach,
			"attach-required",
			false,
			"offer ControllerPublishVolume, which refuses a volume to a second node unless its access mode "+
				"allows several; for a CSIDriver object with attachRequired: true",
		)
		f.StringSliceVar(
			&d.AttachNodes,
			"attach-nodes",
			nil,
			"`ids` of the nodes that volumes can be attached to, * for every node; by default this node",
		)
	})
	d.addLoopFlags(f)
	d.addKubeletFlags(f)
	cli.Grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(
			&d.HTTPEndpoint,
			"http-endpoint",
			"",
			"`address`, such as :9808, to serve metrics and health on; empty for none",
		)
		f.StringVar(&d.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
		f.BoolVar(&d.Pprof, "enable-pprof", false, "also serve profiles of the process below /debug/pprof/")
		d.SecureSettings.AddFlags(f)
		d.AddKubeconfigFlag(f, "for --metrics-secure")
	})
	cli.Grouped(f, "Logs", cli.LoggingFlags(d.Logging))
}

func (d *Driver) addLoopFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Loop images", func(f *pflag.FlagSet) {
		f.Float64Var(
			&d.Loopfile.OverCommit,
			"loopfile-over-commit",
			loopfile.DefaultOverCommit,
			"the sizes of all volumes together may be so many times the space of the pool",
		)
		f.Int64Var(
			&d.Loopfile.MaxVolumes,
			"loopfile-max-volumes",
			loopfile.DefaultMaxVolumes,
			"how many volumes may be in use on this machine at once",
		)
		f.DurationVar(
			&d.Loopfile.FreezeBound,
			"loopfile-freeze-bound",
			loopfile.DefaultFreezeBound,
			"how long a snapshot may keep a volume from being written",
		)
	})
}

func (d *Driver) addKubeletFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Kubelet", func(f *pflag.FlagSet) {
		f.StringVar(
			&d.RegistrationDir,
			"registration-dir",
			"",
			"`folder` that the kubelet watches for drivers, such as /var/lib/kubelet/plugins_registry; empty for no "+
				"registration",
		)
		f.StringVar(
			&d.RegistrationSocket,
			"registration-endpoint",
			"",
			"`path` of the CSI socket as the kubelet sees it, when that is not the path of --endpoint",
		)
	})
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// defaultStateDir returns the system's state directory for root, and the user's own for other
// users.
func defaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/purser"
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "purser")
	}
	return ""
}

// Validate implements role. It creates no files.
func (d *Driver) Validate() error {
	var errs []error
	if d.Endpoint == "" {
		errs = append(errs, errors.New("--endpoint: missing; give a socket, such as unix:///run/csi/csi.sock"))
	}
	if d.StateDir == "" {
		errs = append(errs, errors.New("--state-dir: must not be empty"))
	}
	if d.Backend != "" && !slices.Contains(backends, d.Backend) {
		errs = append(errs, fmt.Errorf(
			"--backend=%q: not known; use one of %s", d.Backend, strings.Join(backends, ", "),
		))
	}
	l := d.Loopfile
	errs = append(errs,
		cli.Need(l.OverCommit > 0, "--loopfile-over-commit=%g: must be above 0", l.OverCommit),
		cli.Need(l.MaxVolumes > 0, "--loopfile-max-volumes=%d: must be above 0", l.MaxVolumes),
		cli.Need(l.FreezeBound > 0, "--loopfile-freeze-bound=%s: must be above 0", l.FreezeBound),
	)
	errs = append(errs, process.ValidateMetricsPath(d.HTTPEndpoint, d.MetricsPath)...)
	errs = append(errs, cli.ValidateLogging(d.Logging)...)
	errs = append(
		errs,
		d.validateRegistration(),
		cli.Need(d.Attach || len(d.AttachNodes) == 0, "--attach-nodes: give --attach-required as well"),
	)
	errs = append(errs, d.topologyMistakes()...)
	errs = append(errs, cli.ValidateAddress("http-endpoint", d.HTTPEndpoint))
	return errors.Join(append(errs, d.settingMistakes()...)...)
}

// flagOf maps the settings of the driver to their flags.
var flagOf = map[string]string{
	"Name":     "driver-name",
	"NodeID":   "node-id",
	"Endpoint": "endpoint",
	"StateDir": "state-dir",
	"Topology": "topology",
	"Zones":    "virtual-zones",
}

// settingMistakes returns the mistakes in the driver's settings, without the missing flags that
// Validate reports itself. The name of the driver is part of its topology key, which must be
// shorter than a name may be.
func (d *Driver) settingMistakes() (errs []error) {
	named := true
	for _, m := range d.settings().CheckSettings() {
		flag, ok := flagOf[m.Setting]
		required := m.Setting == "Endpoint" || m.Setting == "StateDir"
		switch {
		case ok && (m.Value != "" || !required):
			errs = append(errs, fmt.Errorf("--%s=%q: %s", flag, m.Value, m.Problem))
			named = named && m.Setting != "Name"
		case m.Setting == "TopologyKey" && named:
			errs = append(
				errs,
				fmt.Errorf(
					"--driver-name=%q: no name for a topology key, which has lower-case letters; choose another one, "+
						"or give --topology=false",
					d.Name,
				),
			)
		}
	}
	return errs
}

// The values of --topology that are no segments.
const (
	topologyOfNode = "true"
	topologyOff    = "false"
)

// topologyMistakes returns the mistakes in the form of --topology, which the driver's settings do
// not show.
func (d *Driver) topologyMistakes() (errs []error) {
	seen := map[string]bool{}
	for _, segment := range d.Topology {
		key, _, isPair := strings.Cut(segment, "=")
		errs = append(
			errs,
			cli.Need(
				isPair || segment == topologyOfNode || segment == topologyOff,
				"--topology=%q: give true, false or a segment KEY=VALUE",
				segment,
			),
			cli.Need(
				segment != topologyOff || len(d.Topology) == 1,
				"--topology=false: leave the other values out, or this one",
			),
			cli.Need(
				!isPair || !seen[key], "--topology=%q: the key is given twice; all volumes are in one place", segment,
			),
		)
		seen[key] = true
	}
	return errs
}

func (d *Driver) validateRegistration() error {
	if d.RegistrationDir == "" {
		return cli.Need(
			d.RegistrationSocket == "",
			"--registration-endpoint=%s: give --registration-dir as well",
			d.RegistrationSocket,
		)
	}
	if _, err := NewRegistration(d.registration()); err != nil {
		return fmt.Errorf("--registration-dir=%s: %w", d.RegistrationDir, err)
	}
	return nil
}

// settings returns the settings of the driver except its backend and mounter.
func (d *Driver) settings() driver.Config {
	state, err := filepath.Abs(d.StateDir)
	if err != nil {
		state = d.StateDir // the driver reports that it is not absolute
	}
	c := driver.Config{
		Name: d.Name, Version: d.Version, NodeID: d.NodeID, Endpoint: d.Endpoint, StateDir: state,
		Attach: driver.Attach{Required: d.Attach, Nodes: d.AttachNodes}, Zones: d.Zones,
		Trace: d.Tracing.Server(),
	}
	if slices.Contains(d.Topology, topologyOfNode) {
		c.TopologyKey = "topology." + d.Name + "/node"
	}
	for _, segment := range d.Topology {
		if key, value, isPair := strings.Cut(segment, "="); isPair {
			if c.Topology == nil {
				c.Topology = map[string]string{}
			}
			c.Topology[key] = value
		}
	}
	return c
}

func (d *Driver) registration() Config {
	seen := d.RegistrationSocket
	if seen == "" {
		seen = strings.TrimPrefix(d.Endpoint, "unix://")
	}
	return Config{Dir: d.RegistrationDir, Name: d.Name, Socket: seen}
}
