package livenessprobe

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/livenessprobe"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Name is the name of the role.
const Name = "livenessprobe"

// Role is the role livenessprobe. Its flags are those of upstream's program (LP-1 to LP-6).
type Role struct {
	sidecar.Standalone // with --probe-timeout as the timeout

	HealthPort     string
	MetricsAddress string
}

// defaultPort is where the health check is served without a flag (LP-3).
const defaultPort = "9808"

// New returns the role with the default of every setting.
func New() *Role {
	r := &Role{Standalone: sidecar.NewStandalone(Name)}
	r.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return r
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	r := New()
	r.Version = program.Version
	return cli.NewDropInCommand(program, r, &cobra.Command{
		Use:         Name,
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Answer a kubelet's liveness checks by CSI Probe",
		Long: `Answer GET /healthz by the Probe call of a CSI driver, so that the kubelet
restarts the container of a driver that hangs.

It replaces upstream's livenessprobe. It listens at once and answers 503 until
the driver has said its name, keeps one connection, and has one Probe in flight
at a time, whose answer all checks get. Flags can have one dash or two.`,
		Example: `  purser livenessprobe --csi-address=/csi/csi.sock --http-endpoint=:9808`,
	})
}

// AddFlags binds every setting to its flag.
func (r *Role) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Driver", r.AddSocketFlag)
	r.addProbeFlags(f)
	cli.Grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(&r.HTTPEndpoint, "http-endpoint", "",
			"`address`, such as :9808, to serve health and metrics on, in place of health-port and metrics-address")
		f.StringVar(&r.MetricsAddress, "metrics-address", "", "`address` of metrics alone; empty for none")
		r.AddMetricsPath(f)
		cli.Marked(f, cli.MarkDeprecated, "metrics-address")
		r.SecureSettings.AddFlags(f)
		r.AddKubeconfigFlag(f, "for --metrics-secure")
	})
	r.LogSettings.AddFlags(f)
	r.RetireConnectionTimeout(f)
}

// addProbeFlags adds the flags that no other sidecar has.
func (r *Role) addProbeFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Probe", func(f *pflag.FlagSet) {
		f.DurationVar(&r.Timeout, "probe-timeout", 3*time.Second,
			"for the connection and Probe of one check together; less than timeoutSeconds of the livenessProbe")
		f.StringVar(&r.HealthPort, "health-port", defaultPort,
			"`port` of the health check on all addresses; http-endpoint is its newer name")
		cli.Marked(f, cli.MarkDeprecated, "health-port")
	})
}

// Validate implements cli.Role.
func (r *Role) Validate() error {
	return errors.Join(append(r.ValidateShared(cmp.Or(r.HTTPEndpoint, r.MetricsAddress)),
		r.ValidateOwn(),
		cli.Need(r.HTTPEndpoint == "" || r.HealthPort == defaultPort, // LP-4: an explicit 9808 passes
			"--health-port and --http-endpoint: only one of them may be given; use --http-endpoint"),
		cli.Need(r.HTTPEndpoint == "" || r.MetricsAddress == "",
			"--metrics-address and --http-endpoint: only one of them may be given; use --http-endpoint"),
		cli.ValidateAddress("metrics-address", r.MetricsAddress),
	)...)
}

// ValidateOwn lists the mistakes in the settings that no other sidecar has.
func (r *Role) ValidateOwn() error {
	_, port := net.LookupPort("tcp", r.HealthPort)
	return errors.Join(
		cli.Need(port == nil, "--health-port=%q: must be a number from 0 to 65535", r.HealthPort),
		cli.Need(r.Timeout > 0, "--probe-timeout=%s: must be more than 0", r.Timeout),
	)
}

// PortAddress returns the address of --health-port (LP-3).
func (r *Role) PortAddress() string { return net.JoinHostPort("0.0.0.0", r.HealthPort) }

// New returns the prober of the role.
func (r *Role) New(conn *csirpc.Conn) *livenessprobe.Prober {
	return livenessprobe.New(livenessprobe.Config{Conn: conn, Timeout: r.Timeout})
}

// Run implements cli.Role.
func (r *Role) Run(ctx context.Context) error {
	ctx, err := r.StartLogging(ctx, r.Log)
	if err != nil {
		return err
	}
	var api *rest.Config
	if r.Secure {
		if api, err = r.APIConfig(); err != nil {
			return err
		}
	}
	driver, err := r.Dial()
	if err != nil {
		return err
	}
	defer driver.Conn.Close()
	prober := r.New(driver.Conn)
	return r.Serve(ctx, r.servers(prober, driver.Calls, api), prober.Run)
}

// servers returns the server of the health check, and with --metrics-address that of metrics (LP-3 to
// LP-5, LP-13).
func (r *Role) servers(
	prober *livenessprobe.Prober, calls *csirpc.CallMetrics, api *rest.Config,
) []*process.HTTPServer {
	measures := prometheus.Gatherers{process.NewRegistry(), calls}
	health := process.HTTPConfig{
		Address: cmp.Or(r.HTTPEndpoint, r.PortAddress()), MetricsPath: r.MetricsPath, Health: prober,
		Longest: r.Timeout, Secure: r.SecureServer(api),
	}
	if r.HTTPEndpoint != "" {
		health.Metrics = measures
	} else {
		health.Flag = "health-port"
	}
	all := []process.HTTPConfig{health}
	if r.MetricsAddress != "" {
		all = append(all, process.HTTPConfig{
			Address: r.MetricsAddress, Flag: "metrics-address", MetricsPath: r.MetricsPath, Metrics: measures,
			Secure: r.SecureServer(api),
		})
	}
	var servers []*process.HTTPServer
	for _, cfg := range all {
		server := process.NewHTTPServer(cfg)
		server.SetCheck("driver", prober.Check)
		servers = append(servers, server)
	}
	return servers
}
