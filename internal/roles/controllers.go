package roles

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/controllers/handoff"
)

// Controllers is the role controllers: those controllers of kube-controller-manager that concern claims and volumes.
type Controllers struct {
	Version string
	Log     logr.Logger // overrides the logging flags when set, for the roles inside of `up`

	apiAccess

	Wanted     []string // --controllers
	Workers    uint
	RetryStart time.Duration
	RetryMax   time.Duration

	HTTPEndpoint string
	MetricsPath  string
	Pprof        bool

	Election Election
	Logging  *logsapi.LoggingConfiguration

	Desk    *handoff.Queue // of the provisioner in the same process; nil for none
	Started func()         // for `up`: called once the role works; nil for nobody

	registry *prometheus.Registry // of this run; the libraries have one of the process
	ready    atomic.Pointer[httpServer]
	lock     atomic.Pointer[watchedLock]
	listened func(net.Addr) // is told where HTTP is served; for tests
}

// The controllers, by the names that kube-controller-manager has for them (10).
const (
	nameBinder       = "persistentvolume-binder-controller"
	nameClaimGuard   = "persistentvolumeclaim-protection-controller"
	nameVolumeGuard  = "persistentvolume-protection-controller"
	nameVACGuard     = "volumeattributesclass-protection-controller"
	nameExpander     = "persistentvolume-expander-controller"
	nameEphemeral    = "ephemeral-volume-controller"
	everyController  = "*"
	controllersLease = "purser-controllers"
)

// controllerAliases are the names of older versions, which kube-controller-manager accepts too.
var controllerAliases = map[string]string{
	"persistentvolume-binder": nameBinder, "pvc-protection": nameClaimGuard, "pv-protection": nameVolumeGuard,
	"volumeattributesclass-protection": nameVACGuard, "persistentvolume-expander": nameExpander, "ephemeral-volume": nameEphemeral,
}

var controllerNames = []string{nameEphemeral, nameBinder, nameExpander, nameVolumeGuard, nameClaimGuard, nameVACGuard}

// NewControllers has the default of every setting.
func NewControllers() *Controllers {
	c := &Controllers{Logging: logsapi.NewLoggingConfiguration(), registry: prometheus.NewRegistry()}
	c.Election.identity = newIdentity()
	c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return c
}

func newControllers(program Program) *cobra.Command {
	r := NewControllers()
	r.Version = program.Version
	c := &cobra.Command{
		Use: "controllers", GroupID: groupRun, Args: noArguments,
		Short: "Bind claims to volumes, and protect both while they are in use",
		Long: `Bind claims to volumes, and protect both while they are in use.

It takes the place of the controllers of kube-controller-manager that concern
claims and volumes: the PV controller (binder), the protection of claims,
volumes and VolumeAttributesClasses, expansion for CSI drivers, and generic
ephemeral volumes. Switch them off there, each by its name:

  --controllers=*,-persistentvolume-binder-controller,...

Attaching and detaching stays with kube-controller-manager. Half of the
machine's processors, at most four, do the work unless GOMAXPROCS says
otherwise.`,
		Example: `  purser controllers --kubeconfig ~/.kube/config
  purser controllers --leader-election --controllers=persistentvolume-binder-controller`,
		Version: program.Version,
		PreRun:  leaveProcessors,
		RunE:    run(r),
	}
	r.AddFlags(c.Flags())
	return c
}

// AddFlags binds every setting to its flag.
func (c *Controllers) AddFlags(f *pflag.FlagSet) {
	grouped(f, "Controllers", func(f *pflag.FlagSet) {
		c.wantedFlag(f)
		f.UintVar(&c.Workers, "worker-threads", defaultControllerWorkers, "objects of one controller that are worked on at once")
		f.DurationVar(&c.RetryStart, "retry-interval-start", 100*time.Millisecond, "first delay after a failure; it doubles with each further one")
		f.DurationVar(&c.RetryMax, "retry-interval-max", time.Minute, "longest delay after a failure")
	})
	grouped(f, "API server", c.flags)
	grouped(f, "Leader election", c.Election.flags)
	grouped(f, "Metrics and health", func(f *pflag.FlagSet) {
		f.StringVar(&c.HTTPEndpoint, "http-endpoint", "", "`address`, such as :8080, to serve metrics and health on; empty for none")
		f.StringVar(&c.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
		f.BoolVar(&c.Pprof, "enable-pprof", false, "serve profiles of the process below /debug/pprof/ too")
	})
	grouped(f, "Logs", loggingFlags(c.Logging))
}

func (c *Controllers) wantedFlag(f *pflag.FlagSet) {
	f.StringSliceVar(&c.Wanted, "controllers", []string{everyController},
		"`names` of the controllers to run, as kube-controller-manager calls them; * for all, -NAME for all but this one: "+strings.Join(controllerNames, ", "))
}

// defaultControllerWorkers are as many as a provisioner has. Each has at most two requests under way. With fewer than whoever asks, what
// is asked for waits in our queue for longer than it takes: with 32, the slowest of a thousand claims took a quarter longer.
const defaultControllerWorkers = 100

// Validate implements role.
func (c *Controllers) Validate() error {
	_, names := c.enabled()
	return errors.Join(slices.Concat(
		[]error{
			names,
			validateAddress("http-endpoint", c.HTTPEndpoint),
			need(c.Workers > 0, "--worker-threads=0: must be at least 1, or nothing is worked on"),
			need(c.RetryStart > 0, "--retry-interval-start=%s: must be more than 0", c.RetryStart),
			need(c.RetryMax >= c.RetryStart, "--retry-interval-max=%s: must not be less than --retry-interval-start=%s", c.RetryMax, c.RetryStart),
		},
		c.validate(), validateMetricsPath(c.HTTPEndpoint, c.MetricsPath), validateLogging(c.Logging), c.Election.validate())...)
}

// enabled says which controllers run. Each can be swapped by itself: they meet at the API server only.
func (c *Controllers) enabled() (map[string]bool, error) {
	on := map[string]bool{}
	var unknown []error
	for _, item := range c.Wanted {
		name, off := strings.CutPrefix(item, "-")
		if current, ok := controllerAliases[name]; ok {
			name = current
		}
		switch {
		case name == everyController && !off:
			for _, n := range controllerNames {
				if _, said := on[n]; !said {
					on[n] = true
				}
			}
		case slices.Contains(controllerNames, name):
			on[name] = !off
		default:
			unknown = append(unknown, fmt.Errorf("--controllers: %q is not known; there are *, %s", item, strings.Join(controllerNames, ", ")))
		}
	}
	if len(unknown) == 0 && !slices.Contains(slices.Collect(maps.Values(on)), true) {
		unknown = append(unknown, errors.New("--controllers: nothing is left to run; name at least one, or *"))
	}
	return on, errors.Join(unknown...)
}
