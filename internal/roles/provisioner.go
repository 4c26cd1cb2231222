package roles

import (
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	"github.com/purser-csi/purser/internal/core/provision"
)

// Provisioner is the role csi-provisioner: the drop-in for the external-provisioner. The names and defaults of the flags are
// upstream's (docs/rows.md section 1).
type Provisioner struct {
	Version string
	Log     logr.Logger // overrides the logging flags when set, for the roles inside of `up`

	apiAccess

	CSIAddress           string
	Timeout              time.Duration
	CreateTimeout        time.Duration // of CreateVolume; 0 for Timeout
	DeleteTimeout        time.Duration // of DeleteVolume; 0 for Timeout
	ExitOnConnectionLoss bool

	NamePrefix     string
	NameUUIDLength int
	NameTemplate   string // empty for the prefix and the uid
	DefaultFSType  string
	ExtraMetadata  bool
	PublishRO      bool
	MinVolumeSize  map[string]int64 // bytes, by filesystem
	DriverMetadata []provision.MetadataKey
	VolumeMetadata []provision.MetadataKey
	OrphanAudit    time.Duration
	Intents        string // --intents: how sure the journal must be
	Started        func() // for `up`: called once the role works; nil for nobody
	FormerEnded    bool   // for `up`: nobody else can have calls to the driver in flight
	// Desk is where the binder in the same process leaves claims; nil when it is elsewhere. DropProtection says that the controller
	// of pv-protection is in the same process too.
	Desk           *handoff.Queue
	DropProtection bool
	StrictTopology bool
	Immediate      bool // --immediate-topology
	KeepVolumeMode bool // --prevent-volume-mode-conversion

	Workers       uint
	DeleteWorkers uint // 0 for Workers
	CloneWorkers  uint
	SnapshotSweep time.Duration
	RetryStart    time.Duration
	RetryMax      time.Duration

	Capacity       Capacity
	NodeDeployment NodeDeployment

	HTTPEndpoint   string
	MetricsAddress string
	MetricsPath    string
	Pprof          bool

	Election     Election
	LeaseName    string // of the lease; empty for upstream's
	Gates        *Gates
	AutoMaxProcs bool
	Logging      *logsapi.LoggingConfiguration

	beside   beside                 // for `plane`: what else runs in this process
	given    func(flag string) bool // reports whether the command line has it
	notices  *notices               // about the command line, for the log
	listened func(net.Addr)         // is told where HTTP is served; for tests
}

// NewProvisioner has the default of every setting.
func NewProvisioner() *Provisioner {
	p := &Provisioner{Logging: logsapi.NewLoggingConfiguration(), notices: &notices{}}
	p.Gates = newGates(p.notices)
	p.Election.identity = newIdentity()
	p.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return p
}

func newProvisioner(program Program) *cobra.Command {
	p := NewProvisioner()
	p.Version = program.Version
	c := &cobra.Command{
		Use: "csi-provisioner", GroupID: groupRun, Args: p.takeStray,
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
	c.SetVersionTemplate(program.Name + " {{.Version}}\n") // CL-3
	return c
}
