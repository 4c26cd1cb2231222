package provisioner

import (
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/handoff"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// Provisioner is the role csi-provisioner: the drop-in for the external-provisioner. The names and
// defaults of the flags are upstream's (docs/spec/external-provisioner.md, section 1).
type Provisioner struct {
	sidecar.Config

	Volumes   VolumeSettings
	Topology  TopologySettings
	Pace      PaceSettings
	Sources   SourceSettings
	InProcess ColocatedSettings
	Journal   JournalSettings

	Capacity       Capacity
	NodeDeployment NodeDeployment
	Reap           Reap
	at             *atomic.Pointer[place] // nil without --node-deployment
	Gates          *cli.Gates
}

// VolumeSettings are how volumes are named, made and described.
type VolumeSettings struct {
	NamePrefix     string
	NameUUIDLength int
	NameTemplate   string // empty for the prefix and the uid
	DefaultFSType  string
	ExtraMetadata  bool
	PublishRO      bool
	MinVolumeSize  map[string]int64 // bytes, by filesystem
	DriverMetadata []provision.MetadataKey
	VolumeMetadata []provision.MetadataKey
}

// PaceSettings are timeouts and workers of single calls.
type PaceSettings struct {
	CreateTimeout time.Duration // of CreateVolume; 0 for the timeout of all calls
	DeleteTimeout time.Duration // of DeleteVolume; 0 for the timeout of all calls
	DeleteWorkers uint          // 0 for as many as create volumes
}

// SourceSettings are about snapshots and clones as the sources of volumes.
type SourceSettings struct {
	KeepVolumeMode bool // --prevent-volume-mode-conversion
	CloneWorkers   uint
	SnapshotSweep  time.Duration
}

// JournalSettings are about requests whose outcome is not known, and about volumes without a
// PersistentVolume.
type JournalSettings struct {
	Intents     string // --intents: whether volumes may be created without the journal
	OrphanAudit time.Duration
	// SkipUnreadable is --purser-skip-unreadable-journal.
	SkipUnreadable bool
	PreviousEnded  bool // no process before this one can have calls to the driver in flight, as in `up`
}

// ColocatedSettings are about the other controllers in the same process.
type ColocatedSettings struct {
	Queue          *handoff.Queue // receives claims from the binder; nil when it is in another process
	DropProtection bool           // the pv-protection controller is in the same process
	Attacher       bool           // the attacher of the driver is in the same process
	// Snapshots is what a snapshot-controller in the same process, which this role hosts, knows; nil for
	// none.
	Snapshots *handoff.Snapshots
}

// New returns a provisioner with the default of every setting.
func New() *Provisioner {
	p := &Provisioner{Config: sidecar.NewConfig()}
	p.Gates = cli.NewGates(gateTable, p.Notices)
	p.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return p
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	p := New()
	p.Version = program.Version
	return cli.NewDropInCommand(program, p, &cobra.Command{
		Use: "csi-provisioner", Args: p.takeStray,
		Short: "Create and delete volumes for claims, through one CSI driver",
		Long: `Create and delete volumes for PersistentVolumeClaims, through one CSI driver.

It replaces the external-provisioner of a CSI driver: it watches the claims with
the driver's provisioner annotation, calls CreateVolume and DeleteVolume, and
writes and deletes the PersistentVolumes.`,
		Example: `  purser csi-provisioner --csi-address=/run/csi/socket --leader-election`,
	})
}
