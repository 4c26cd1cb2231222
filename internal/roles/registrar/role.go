package registrar

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Name is the name of the role.
const Name = "node-driver-registrar"

// Role is the role node-driver-registrar. Its flags are those of upstream's program (NR-1 to NR-9).
type Role struct {
	sidecar.Standalone

	Endpoint   string // --kubelet-registration-path: the driver's socket as the kubelet sees it
	Dir        string // --plugin-registration-path
	HealthPort int
	Pprof      bool
	Mode       string
	NodeName   string // of the events; empty for no events

	TerminationLog string
}

// modeProbe is the mode in which upstream's program ends at once (NR-7): charts run it as a probe.
const modeProbe = "kubelet-registration-probe"

// New returns the role with the default of every setting.
func New() *Role {
	r := &Role{Standalone: sidecar.NewStandalone(Name), TerminationLog: process.TerminationLog}
	r.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return r
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	r := New()
	r.Version = program.Version
	return cli.NewDropInCommand(program, r, &cobra.Command{
		Use:         Name,
		Aliases:     []string{"csi-node-driver-registrar"},
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Register a CSI driver with the kubelet of its node",
		Long: `Register a CSI driver with the kubelet of its node, through a socket in the
folder that the kubelet watches.

It replaces upstream's node-driver-registrar. It waits for the driver without a
limit, goes on when the kubelet refuses the driver, and makes the socket again
when it is lost. When the driver comes back with another node id, topology or
limit, the kubelet registers it anew. Flags can have one dash or two.`,
		Example: `  purser node-driver-registrar --csi-address=/csi/csi.sock \
    --kubelet-registration-path=/var/lib/kubelet/plugins/csi.example.com/csi.sock`,
	})
}

// AddFlags binds every setting to its flag.
func (r *Role) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Registration", func(f *pflag.FlagSet) {
		r.AddSocketFlag(f)
		f.DurationVar(&r.Timeout, "timeout", time.Second,
			"for GetPluginInfo and NodeGetInfo, and for one health check; failed calls are repeated")
	})
	r.addOwnFlags(f)
	cli.Grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(&r.HTTPEndpoint, "http-endpoint", "",
			"`address`, such as :9809, to serve health and metrics on; empty for none")
		f.IntVar(&r.HealthPort, "health-port", 0, "older name of http-endpoint: a port; 0 or less for none")
		r.AddMetricsPath(f)
		f.BoolVar(&r.Pprof, "enable-pprof", false, "also serve profiles of the process below /debug/pprof/")
		cli.Marked(f, cli.MarkDeprecated, "health-port")
		cli.Marked(f, cli.MarkNew, "metrics-path")
		r.SecureSettings.AddFlags(f)
		r.AddKubeconfigFlag(f, "for --node-name and --metrics-secure")
	})
	r.LogSettings.AddFlags(f)
}

// addOwnFlags adds the flags that no other sidecar has.
func (r *Role) addOwnFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Registration", func(f *pflag.FlagSet) {
		f.StringVar(&r.Endpoint, "kubelet-registration-path", "",
			"`path` of the driver's socket on the host, as the kubelet sees it (required)")
		f.StringVar(&r.Dir, "plugin-registration-path", "/registration",
			"`folder` of the registration socket: the host's /var/lib/kubelet/plugins_registry, mounted here")
		f.StringVar(&r.Mode, "mode", "",
			modeProbe+" ends at once with success, as upstream does since 2.9; any other value registers the driver")
		f.StringVar(&r.NodeName, "node-name", "",
			"`name` of this node, for events about a registration that the kubelet refuses; empty for that in the "+
				"environment variable NODE_NAME or KUBE_NODE_NAME, and without these for no events")
		cli.Marked(f, cli.MarkDeprecated, "mode")
		cli.Marked(f, cli.MarkNew, "node-name")
	})
	r.RetireConnectionTimeout(f)
}

// Validate implements cli.Role. In the mode of the probe nothing but the path is checked (NR-11).
func (r *Role) Validate() error {
	if r.isProbe() {
		return r.needEndpoint()
	}
	return errors.Join(append(r.ValidateShared(r.address()),
		r.needEndpoint(), r.ValidateOwn(),
		cli.Need(r.HTTPEndpoint == "" || r.HealthPort <= 0, // NR-5
			"--health-port and --http-endpoint: only one of them may be given; use --http-endpoint"),
		cli.Need(r.HealthPort <= 65535, "--health-port=%d: must be at most 65535", r.HealthPort),
	)...)
}

// ValidateOwn lists the mistakes in the settings that no other sidecar has.
func (r *Role) ValidateOwn() error {
	if r.Mode != "" && !r.isProbe() {
		r.Notices.Add("--mode", "has no effect: the only mode beside registration is "+modeProbe)
	}
	if r.HealthPort > 0 {
		r.Notices.Add("--health-port", "is the older name of --http-endpoint")
	}
	return errors.Join(
		cli.Need(filepath.IsAbs(r.Dir), "--plugin-registration-path=%q: give an absolute path", r.Dir),
		cli.Need(r.Timeout > 0, "--timeout=%s: must be more than 0", r.Timeout),
	)
}

func (r *Role) needEndpoint() error { // NR-2
	return cli.Need(r.Endpoint != "",
		"--kubelet-registration-path: missing; give the path of the driver's socket as the kubelet sees it, such as "+
			"/var/lib/kubelet/plugins/csi.example.com/csi.sock")
}

func (r *Role) isProbe() bool { return r.Mode == modeProbe }

// address is where HTTP is served; empty for nowhere (NR-5, NR-6).
func (r *Role) address() string {
	if r.HTTPEndpoint != "" || r.HealthPort <= 0 {
		return r.HTTPEndpoint
	}
	return ":" + strconv.Itoa(r.HealthPort)
}

// addressFlag returns the flag that gives the address.
func (r *Role) addressFlag() string {
	if r.HTTPEndpoint == "" && r.HealthPort > 0 {
		return "health-port"
	}
	return "http-endpoint"
}

// node returns the name of the node for events; empty for none.
func (r *Role) node() string {
	return cmp.Or(r.NodeName, os.Getenv("NODE_NAME"), os.Getenv("KUBE_NODE_NAME"))
}

// Run implements cli.Role.
func (r *Role) Run(ctx context.Context) error {
	if r.isProbe() {
		return nil
	}
	ctx, err := r.StartLogging(ctx, r.Log)
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Running "+Name, "version", r.Version)
	return r.serve(ctx)
}
