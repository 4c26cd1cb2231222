package process

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/telemetry"
)

// ownPaths are the paths of the health endpoints, which the metrics cannot have.
var ownPaths = []string{pathLive, pathHealth, pathReady, pathLeader, telemetry.PathSpans}

// ValidateMetricsPath checks the path of the metrics. Without an address it accepts every path, as
// upstream does (F-53).
func ValidateMetricsPath(address, path string) []error {
	if address == "" {
		return nil
	}
	return []error{
		cli.Need(
			strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "{} "),
			"--metrics-path=%q: must begin with / and name one path",
			path,
		),
		cli.Need(
			!slices.Contains(ownPaths, path) && !strings.HasPrefix(path, pathPprof) &&
				!strings.HasPrefix(path, pathHealth+"/"),
			"--metrics-path=%q: something else is served there",
			path,
		),
	}
}

// HTTPSettings are the flags about what a role serves over HTTP.
type HTTPSettings struct {
	HTTPEndpoint   string
	MetricsAddress string // older name of HTTPEndpoint; upstream's sidecars have it
	MetricsPath    string
	Pprof          bool
	Life           bool
	SecureSettings
	Listened func(net.Addr) // receives the address that HTTP is served at; may be nil
}

// AddFlags adds the flags F-51 and F-53, --enable-pprof and --purser-life.
func (h *HTTPSettings) AddFlags(f *pflag.FlagSet) {
	f.StringVar(
		&h.HTTPEndpoint,
		"http-endpoint",
		"",
		"`address`, such as :8080, to serve metrics and health on; empty for none",
	)
	f.StringVar(&h.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
	f.BoolVar(&h.Pprof, "enable-pprof", false, "also serve profiles of the process below /debug/pprof/")
	f.BoolVar(&h.Life, "purser-life", false, "also serve what the process did last, with the names of objects and the "+
		"handles of volumes, at "+telemetry.PathSpans+", for purser record")
	h.SecureSettings.AddFlags(f)
}

// AddSidecarFlags adds the flags F-14 and F-51 to F-53.
func (h *HTTPSettings) AddSidecarFlags(f *pflag.FlagSet) {
	h.AddFlags(f)
	f.StringVar(&h.MetricsAddress, "metrics-address", "",
		"older name of http-endpoint: an `address`, without /healthz/leader-election; give only one of the two")
	cli.Marked(f, cli.MarkDeprecated, "metrics-address")
}

// Validate lists the mistakes.
func (h *HTTPSettings) Validate(n *cli.Notices) []error {
	h.Warn(n)
	if h.MetricsAddress != "" {
		n.Add(
			"--metrics-address",
			"is the older name of --http-endpoint, and does not serve /healthz/leader-election",
		) // F-52
	}
	return append(ValidateMetricsPath(h.address(), h.MetricsPath),
		cli.ValidateAddress("http-endpoint", h.HTTPEndpoint), cli.ValidateAddress("metrics-address", h.MetricsAddress),
		cli.Need(h.HTTPEndpoint == "" || h.MetricsAddress == "", // CL-4
			"--metrics-address and --http-endpoint: only one of them may be given; use --http-endpoint"))
}

// address is where HTTP is served; empty for nowhere.
func (h *HTTPSettings) address() string { return cmp.Or(h.MetricsAddress, h.HTTPEndpoint) }

// ServerConfig returns the configuration of the server by the flags. spans is what the process did
// last; it may be nil. api reviews the callers of a secure server.
func (h *HTTPSettings) ServerConfig(
	metrics prometheus.Gatherer, spans *telemetry.Spans, api *rest.Config,
) HTTPConfig {
	cfg := HTTPConfig{
		Address: h.address(), MetricsPath: h.MetricsPath, Metrics: metrics, Pprof: h.Pprof,
		Secure: h.SecureServer(api),
	}
	if h.Life && spans != nil {
		cfg.Spans = spans
	}
	return cfg
}

// Listen starts the server where an address is configured.
func (h *HTTPSettings) Listen(ctx context.Context, server *HTTPServer) error {
	if h.address() == "" {
		return nil
	}
	where, err := server.Listen(ctx)
	if err == nil && h.Listened != nil {
		h.Listened(where)
	}
	return err
}
