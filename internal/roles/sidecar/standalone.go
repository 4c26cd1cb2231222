package sidecar

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
)

// Standalone is a sidecar role without controllers, and so without a manager, a cache and a lease. A role
// embeds it, and adds its own flags and what it runs.
type Standalone struct {
	Version  string
	Log      logr.Logger    // overrides the logging flags when set
	Started  func()         // is called when the role serves; may be nil
	Listened func(net.Addr) // receives the address that HTTP is served at; may be nil

	process.APIAccess
	process.LogSettings
	process.SecureSettings

	CSIAddress   string
	Timeout      time.Duration // of a call to the driver
	HTTPEndpoint string
	MetricsPath  string

	name string
}

// NewStandalone returns the role of a name with the defaults that are no flags.
func NewStandalone(name string) Standalone {
	return Standalone{LogSettings: process.NewLogSettings(), name: name}
}

// AddSocketFlag adds the flag F-10.
func (s *Standalone) AddSocketFlag(f *pflag.FlagSet) { addSocketFlag(f, &s.CSIAddress) }

// AddMetricsPath adds the flag F-53.
func (s *Standalone) AddMetricsPath(f *pflag.FlagSet) {
	f.StringVar(&s.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
}

// RetireConnectionTimeout adds a flag that upstream's programs of the node had.
func (s *Standalone) RetireConnectionTimeout(f *pflag.FlagSet) {
	cli.AddRetired(f, s.Notices, cli.RetiredFlag{
		Name: "connection-timeout", Kind: "duration", Now: "has no effect: the driver is waited for without a limit",
		Accept: cli.IsDuration,
	})
}

// ValidateShared lists the mistakes in the shared settings. address is where the metrics are served; empty
// for nowhere.
func (s *Standalone) ValidateShared(address string) []error {
	s.Warn(s.Notices)
	return slices.Concat(
		[]error{socketProblem(s.CSIAddress), cli.ValidateAddress("http-endpoint", s.HTTPEndpoint)},
		process.ValidateMetricsPath(address, s.MetricsPath), cli.ValidateLogging(s.Logging))
}

// APIConfig returns the configuration for requests to the API server.
func (s *Standalone) APIConfig() (*rest.Config, error) {
	return s.Config("purser-" + s.name + "/" + s.Version)
}

// Dial returns a connection to the driver, with the measures of its calls. The caller closes it.
func (s *Standalone) Dial() (*SharedDriver, error) {
	calls := csirpc.NewCallMetrics()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: s.CSIAddress, Timeout: s.Timeout, Metrics: calls})
	return &SharedDriver{Conn: conn, Calls: calls}, err
}

// Serve serves HTTP and runs the parts of the role, until ctx ends or one of them fails.
func (s *Standalone) Serve(
	ctx context.Context, servers []*process.HTTPServer, parts ...func(context.Context) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, server := range servers {
		where, err := server.Listen(ctx) // a port that is taken ends the process with an error (LP-14, NR-5)
		if err != nil {
			return err
		}
		defer server.Stop()
		if i == 0 && s.Listened != nil {
			s.Listened(where)
		}
		parts = append(parts, server.Start)
	}
	if s.Started != nil {
		s.Started()
	}
	for _, run := range parts {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { process.SaveMemoryAlone(ctx); return nil })
	return group.Wait()
}
