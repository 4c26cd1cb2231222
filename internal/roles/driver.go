package roles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/mount"
)

// Driver is the role driver: a CSI plugin with all services in one process.
type Driver struct {
	Version string
	Log     logr.Logger       // overrides the logging flags when set, for the driver inside of `up`
	Notice  func(text string) // is told once what a person should know of the start

	Endpoint string
	StateDir string
	NodeID   string
	Name     string
	Backend  string
	Logging  *logsapi.LoggingConfiguration
}

// NewDriver has the default of every setting.
func NewDriver() *Driver {
	d := &Driver{Logging: logsapi.NewLoggingConfiguration()}
	d.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return d
}

func newDriver(program Program) *cobra.Command {
	d := NewDriver()
	d.Version = program.Version
	d.Notice = func(text string) { fmt.Fprintln(program.Out, text) }
	c := &cobra.Command{
		Use: "driver", GroupID: groupRun, Args: noArguments,
		Short: "A CSI driver that keeps volumes in directories of this machine",
		Long: `A CSI driver with Identity, Controller and Node services in one process.

Its volumes are directories below the state directory. Publishing one is a
bind mount, or a symbolic link where mounting is not allowed. A directory has
no size limit: a volume may grow as far as the filesystem lets it.`,
		Example: `  purser driver --endpoint unix:///run/csi/csi.sock --state-dir /var/lib/volumes`,
		RunE:    run(d),
	}
	d.AddFlags(c.Flags())
	return c
}

const backendDirectory = "directory"

// AddFlags binds every setting to its flag.
func (d *Driver) AddFlags(f *pflag.FlagSet) {
	grouped(f, "Driver", func(f *pflag.FlagSet) {
		f.StringVar(&d.Endpoint, "endpoint", "", "`socket` to serve on, such as unix:///run/csi/csi.sock (required)")
		f.StringVar(&d.StateDir, "state-dir", defaultStateDir(), "`folder` for volumes and what is known of them")
		f.StringVar(&d.NodeID, "node-id", hostname(), "`name` of this machine towards the cluster")
		f.StringVar(&d.Name, "driver-name", driver.DefaultName, "`name` of the driver, as StorageClasses refer to it")
		f.StringVar(&d.Backend, "backend", backendDirectory, "`kind` of storage; so far there is only "+backendDirectory)
	})
	grouped(f, "Logs", loggingFlags(d.Logging))
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// defaultStateDir is the system's place for root, and the user's for others.
func defaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/purser"
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "purser")
	}
	return ""
}

// Validate implements role. The driver itself checks the rest when it is made.
func (d *Driver) Validate() error {
	var errs []error
	if d.Endpoint == "" {
		errs = append(errs, errors.New("--endpoint: missing; give a socket, such as unix:///run/csi/csi.sock"))
	}
	if d.StateDir == "" {
		errs = append(errs, errors.New("--state-dir: must not be empty"))
	}
	if d.Backend != backendDirectory {
		errs = append(errs, fmt.Errorf("--backend=%q: not known; use %q", d.Backend, backendDirectory))
	}
	return errors.Join(errs...)
}

// Run implements role.
func (d *Driver) Run(ctx context.Context) error {
	log := d.Log
	if log.GetSink() == nil {
		if err := logsapi.ValidateAndApply(d.Logging, nil); err != nil {
			return UsageError{fmt.Errorf("logging: %w", err)}
		}
		log = klog.Background()
	}
	plugin, err := d.plugin()
	if err != nil {
		return err
	}
	return plugin.Run(logr.NewContext(ctx, log))
}

func (d *Driver) plugin() (*driver.Driver, error) {
	state, err := filepath.Abs(d.StateDir)
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("--state-dir=%s: %w", d.StateDir, err)
	}
	publishing, err := mount.Detect(state)
	if err != nil {
		return nil, fmt.Errorf("--state-dir=%s: %w", d.StateDir, err)
	}
	d.Notice(publishing.Reason)
	volumes, err := directory.New(directory.Config{StateDir: state})
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", d.Backend, err)
	}
	return driver.New(driver.Config{
		Name: d.Name, Version: d.Version, NodeID: d.NodeID, Endpoint: d.Endpoint, StateDir: state,
		Backend: volumes, Mounter: publishing.Mounter,
	})
}
