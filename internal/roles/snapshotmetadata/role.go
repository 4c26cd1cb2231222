package snapshotmetadata

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Name is the name of the role.
const Name = "csi-snapshot-metadata"

// Role is the role csi-snapshot-metadata. Its flags are those of upstream's program (CB-1 to
// CB-10).
type Role struct {
	sidecar.Standalone

	Port           int
	CertPath       string // --tls-cert
	KeyPath        string // --tls-key
	Audience       string
	Minutes        int // --max-streaming-duration-min
	DisableMetrics bool
	tls            tlsSettings

	Serving func(net.Addr) // receives the address of the service; may be nil
}

// The defaults (CB-3, CB-6, CB-7).
const (
	defaultPort     = 50051
	defaultMinutes  = 10
	defaultEndpoint = ":8080"
)

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
		Aliases:     []string{"csi-snapshot-metadata-sidecar"},
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Tell backup programs which blocks of a snapshot changed",
		Long: `Serve the SnapshotMetadata API of one CSI driver over gRPC with TLS: the
allocated blocks of a VolumeSnapshot, and those that changed since another one.

It replaces upstream's csi-snapshot-metadata. The token of each request is
reviewed for the audience of the SnapshotMetadataService object that has the
name of the driver, and its user must have the permission to get the
VolumeSnapshots of the namespace. The certificate is read again when it
changes. Flags can have one dash or two.`,
		Example: `  purser csi-snapshot-metadata --csi-address=/csi/csi.sock \
    --tls-cert=/certs/tls.crt --tls-key=/certs/tls.key`,
	})
}

// AddFlags binds every setting to its flag.
func (r *Role) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Driver", func(f *pflag.FlagSet) {
		r.AddSocketFlag(f)
		f.DurationVar(&r.Timeout, "timeout", time.Minute, "for each call that asks the driver what it is")
	})
	r.addOwnFlags(f)
	cli.Grouped(f, "API server", r.APIAccess.AddFlags)
	cli.Marked(f, cli.MarkNew, "master")
	cli.Grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(&r.HTTPEndpoint, "http-endpoint", defaultEndpoint,
			"`address` to serve metrics and health on; empty for none")
		r.AddMetricsPath(f)
		f.BoolVar(&r.DisableMetrics, "disable-metrics", false, "serve health alone")
		r.SecureSettings.AddFlags(f)
	})
	r.LogSettings.AddFlags(f)
}

// addOwnFlags adds the flags that no other sidecar has.
func (r *Role) addOwnFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Snapshot metadata", func(f *pflag.FlagSet) {
		f.IntVar(&r.Port, "port", defaultPort, "`port` of the service on all addresses; 0 for any free one")
		f.StringVar(&r.CertPath, "tls-cert", "",
			"`file` of the certificate (required); empty for that in the environment variable TLS_CERT_PATH")
		f.StringVar(&r.KeyPath, "tls-key", "",
			"`file` of its private key (required); empty for that in the environment variable TLS_KEY_PATH")
		f.StringVar(&r.Audience, "audience", "",
			"`audience` that tokens must be for; empty for the one in the SnapshotMetadataService object of the driver")
		f.IntVar(&r.Minutes, "max-streaming-duration-min", defaultMinutes,
			"`minutes` that one stream may take; 0 or less for 10")
		r.tls.addFlags(f)
	})
	cli.Ranged(f, cli.Range{Least: "0", Most: "65535"}, "port")
	cli.Ranged(f, cli.Range{Most: "525600"}, "max-streaming-duration-min") // a year
}

// Validate implements cli.Role.
func (r *Role) Validate() error {
	return errors.Join(append(slices.Concat(r.ValidateShared(r.HTTPEndpoint), r.APIAccess.Validate()),
		r.ValidateOwn(),
		cli.Need(r.Timeout > 0, "--timeout=%s: must be more than 0", r.Timeout),
		cli.Need(r.MetricsPath != pathHealth, "--metrics-path=%q: something else is served there", r.MetricsPath),
	)...)
}

// ValidateOwn lists the mistakes in the settings that no other sidecar has.
func (r *Role) ValidateOwn() error {
	_, err := r.tls.config()
	return errors.Join(
		cli.Need(r.cert() != "", "--tls-cert: missing; give the file of the certificate, or set TLS_CERT_PATH"),
		cli.Need(r.key() != "", "--tls-key: missing; give the file of the private key, or set TLS_KEY_PATH"),
		err,
	)
}

// cert and key are the files of the certificate (CB-4).
func (r *Role) cert() string { return cmp.Or(r.CertPath, os.Getenv("TLS_CERT_PATH")) }
func (r *Role) key() string  { return cmp.Or(r.KeyPath, os.Getenv("TLS_KEY_PATH")) }

// longest returns how long a stream may take (CB-6).
func (r *Role) longest() time.Duration {
	if r.Minutes <= 0 {
		return defaultMinutes * time.Minute
	}
	return time.Duration(r.Minutes) * time.Minute
}

// Run implements cli.Role.
func (r *Role) Run(ctx context.Context) error {
	ctx, err := r.StartLogging(ctx, r.Log)
	if err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("Running "+Name, "version", r.Version)
	return r.serve(ctx)
}
