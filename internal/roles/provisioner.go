package roles

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/csirpc"
)

// Provisioner is the role csi-provisioner: the drop-in for the external-provisioner. The names and defaults of the flags are
// upstream's (external-provisioner.md section 1).
type Provisioner struct {
	Version string
	Log     logr.Logger  // overrides the logging flags when set, for the roles inside of `up`
	API     *rest.Config // overrides Kubeconfig when set, likewise

	CSIAddress     string
	Kubeconfig     string
	Master         string
	KubeAPIQPS     float32
	KubeAPIBurst   int
	Timeout        time.Duration
	RetryStart     time.Duration
	RetryMax       time.Duration
	Workers        uint
	NamePrefix     string
	NameUUIDLength int
	DefaultFSType  string
	ExtraMetadata  bool
	PublishRO      bool
	HTTPEndpoint   string
	MetricsPath    string
	Election       Election
	Logging        *logsapi.LoggingConfiguration
}

// Election are the settings of leader election.
type Election struct {
	Enabled       bool
	Namespace     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// NewProvisioner has the default of every setting.
func NewProvisioner() *Provisioner {
	p := &Provisioner{Logging: logsapi.NewLoggingConfiguration()}
	p.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return p
}

func newProvisioner(program Program) *cobra.Command {
	p := NewProvisioner()
	p.Version = program.Version
	c := &cobra.Command{
		Use: "csi-provisioner", GroupID: groupRun, Args: noArguments,
		Short: "Create and delete volumes for claims, through one CSI driver",
		Long: `Create and delete volumes for PersistentVolumeClaims, through one CSI driver.

It takes the place of the external-provisioner beside a CSI driver: it watches
claims that the PV controller gave to the driver, calls CreateVolume and
DeleteVolume, and writes and deletes the PersistentVolumes.`,
		Example: `  purser csi-provisioner --csi-address=/run/csi/socket --leader-election`,
		Version: program.Version,
		RunE:    run(p),
	}
	p.AddFlags(c.Flags())
	return c
}

// AddFlags binds every setting to its flag.
func (p *Provisioner) AddFlags(f *pflag.FlagSet) {
	grouped(f, "Driver", p.driverFlags)
	grouped(f, "API server", p.apiFlags)
	grouped(f, "Volumes", p.volumeFlags)
	grouped(f, "Pace", p.paceFlags)
	grouped(f, "Leader election", p.Election.flags)
	grouped(f, "Metrics and health", p.httpFlags)
	grouped(f, "Logs", loggingFlags(p.Logging))
}

func (p *Provisioner) driverFlags(f *pflag.FlagSet) {
	f.StringVar(&p.CSIAddress, "csi-address", "/run/csi/socket", "the driver's socket: an absolute `path`, or unix:// with one")
	f.DurationVar(&p.Timeout, "timeout", 10*time.Second, "for each call to the driver")
}

func (p *Provisioner) apiFlags(f *pflag.FlagSet) {
	f.StringVar(&p.Kubeconfig, "kubeconfig", "", "`path` of a kubeconfig, when not running in the cluster; the environment variable KUBECONFIG wins over it")
	f.StringVar(&p.Master, "master", "", "`URL` of the API server, instead of the kubeconfig's")
	f.Float32Var(&p.KubeAPIQPS, "kube-api-qps", 0, "API requests per second; 0 leaves the limit to the API server's priority and fairness")
	f.IntVar(&p.KubeAPIBurst, "kube-api-burst", 0, "API requests at once, when kube-api-qps is set; 0 means twice kube-api-qps")
}

func (p *Provisioner) volumeFlags(f *pflag.FlagSet) {
	f.StringVar(&p.NamePrefix, "volume-name-prefix", "pvc", "volumes are named `PREFIX`-<uid of the claim>")
	f.IntVar(&p.NameUUIDLength, "volume-name-uuid-length", -1, "characters of the uid, without its dashes, in the name; -1 for all of it")
	f.StringVar(&p.DefaultFSType, "default-fstype", "", "filesystem when the StorageClass names none; empty leaves it to the driver")
	f.BoolVar(&p.ExtraMetadata, "extra-create-metadata", false, "tell the driver the names of claim, namespace and PersistentVolume")
	f.BoolVar(&p.PublishRO, "controller-publish-readonly", false, "mark volumes whose only access mode is ReadOnlyMany as read-only")
}

func (p *Provisioner) paceFlags(f *pflag.FlagSet) {
	f.UintVar(&p.Workers, "worker-threads", 100, "claims, and again volumes, that are worked on at once")
	f.DurationVar(&p.RetryStart, "retry-interval-start", time.Second, "first delay after a failure; it doubles with each further one")
	f.DurationVar(&p.RetryMax, "retry-interval-max", 5*time.Minute, "longest delay after a failure")
}

func (p *Provisioner) httpFlags(f *pflag.FlagSet) {
	f.StringVar(&p.HTTPEndpoint, "http-endpoint", "", "`address`, such as :8080, to serve metrics and health on; empty for none")
	f.StringVar(&p.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
}

func (e *Election) flags(f *pflag.FlagSet) {
	f.BoolVar(&e.Enabled, "leader-election", false, "let only one of several instances work at a time")
	f.StringVar(&e.Namespace, "leader-election-namespace", "", "`namespace` of the lease; empty for the pod's own")
	f.DurationVar(&e.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "how long others wait for a leader that is silent")
	f.DurationVar(&e.RenewDeadline, "leader-election-renew-deadline", 10*time.Second, "how long a leader tries to renew before it gives up")
	f.DurationVar(&e.RetryPeriod, "leader-election-retry-period", 5*time.Second, "pause between two tries")
}

// loggingFlags are those of the Kubernetes components. Four of them need a gate that no program of this kind can set; upstream
// shows them all the same (F-63).
func loggingFlags(logging *logsapi.LoggingConfiguration) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		logsapi.AddFlags(logging, f)
		for _, name := range []string{"log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"} {
			if flag := f.Lookup(name); flag != nil {
				flag.Hidden = true
			}
		}
	}
}

// Validate implements role.
func (p *Provisioner) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if _, err := csirpc.SocketPath(p.CSIAddress); err != nil {
		errs = append(errs, fmt.Errorf("--csi-address: %w", err))
	}
	bad(p.KubeAPIQPS >= 0, "--kube-api-qps=%v: must not be negative", p.KubeAPIQPS)
	bad(p.KubeAPIBurst >= 0, "--kube-api-burst=%d: must not be negative", p.KubeAPIBurst)
	bad(p.Timeout > 0, "--timeout=%s: must be more than 0", p.Timeout)
	bad(p.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", p.RetryStart)
	bad(p.RetryMax >= p.RetryStart, "--retry-interval-max=%s: must not be less than --retry-interval-start=%s", p.RetryMax, p.RetryStart)
	bad(p.Workers > 0, "--worker-threads=0: must be at least 1, or no claim is worked on")
	bad(p.NamePrefix != "", "--volume-name-prefix: must not be empty")
	// A short name is a shared volume: 0 gives all claims one name (H-11).
	bad(p.NameUUIDLength == -1 || (p.NameUUIDLength >= minUUIDLength && p.NameUUIDLength <= maxUUIDLength),
		"--volume-name-uuid-length=%d: must be -1 or from %d to %d", p.NameUUIDLength, minUUIDLength, maxUUIDLength)
	errs = append(errs, p.Election.validate()...)
	return errors.Join(errs...)
}

const (
	minUUIDLength = 8
	maxUUIDLength = 32
)

func (e Election) validate() []error {
	if !e.Enabled {
		return nil
	}
	var errs []error
	if e.LeaseDuration <= e.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-election-lease-duration=%s: must be more than --leader-election-renew-deadline=%s",
			e.LeaseDuration, e.RenewDeadline))
	}
	if float64(e.RenewDeadline) <= 1.2*float64(e.RetryPeriod) || e.RetryPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--leader-election-renew-deadline=%s: must be more than 1.2 times --leader-election-retry-period=%s, which must be more than 0",
			e.RenewDeadline, e.RetryPeriod))
	}
	return errs
}
