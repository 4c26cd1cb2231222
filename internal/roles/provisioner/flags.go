package provisioner

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// AddFlags binds every setting to its flag.
func (p *Provisioner) AddFlags(f *pflag.FlagSet) {
	p.Given = f.Changed
	cli.Grouped(f, "Driver", p.driverFlags)
	cli.Grouped(f, "API server", p.APIAccess.AddFlags)
	cli.Grouped(f, "Volumes", p.volumeFlags)
	cli.Grouped(f, "Topology", p.topologyFlags)
	cli.Grouped(f, "Workers and retries", p.paceFlags)
	cli.Grouped(f, "Leader election", p.electionFlags)
	cli.Grouped(f, "Metrics and health", p.AddSidecarFlags)
	cli.Grouped(f, "Traces", p.AddTraceFlags)
	cli.Grouped(f, "Process", p.processFlags)
	cli.Grouped(f, "Logs", cli.LoggingFlags(p.Logging))
	cli.Grouped(f, "Sources of volumes", p.sourceFlags)
	cli.Grouped(f, "Storage capacity", p.Capacity.flags)
	cli.Grouped(f, "One instance per node", p.NodeDeployment.flags)
	cli.Grouped(f, "One instance per node", p.Reap.flags)
	cli.Grouped(f, "Flags of older versions", p.retiredFlags)
	cli.Marked(f, cli.MarkNew, "min-volume-size", "volume-name-template", "driver-metadata", "volume-metadata",
		"intents", "orphan-audit-interval", "create-timeout", "delete-timeout", "delete-worker-threads",
		"leader-election-lease-name", "assertive-topology", "max-topology-terms", "capacity-max-age")
}

// driverFlags adds F-10 and F-42, and Purser's own (U-29).
func (p *Provisioner) driverFlags(f *pflag.FlagSet) {
	p.Connection.AddFlags(f, 10*time.Second)
	f.DurationVar(
		&p.Pace.CreateTimeout, "create-timeout", 0,
		"timeout of CreateVolume, if it needs a longer one than other calls; 0 for --timeout",
	)
	f.DurationVar(&p.Pace.DeleteTimeout, "delete-timeout", 0, "timeout of DeleteVolume, likewise; 0 for --timeout")
}

// volumeFlags adds F-2, F-3, F-13, F-15, F-26 and Purser's own.
func (p *Provisioner) volumeFlags(f *pflag.FlagSet) {
	f.StringVar(
		&p.Volumes.NamePrefix, "volume-name-prefix", defaultNamePrefix, "volumes are named `PREFIX`-<uid of the claim>",
	)
	f.IntVar(
		&p.Volumes.NameUUIDLength, "volume-name-uuid-length", -1,
		"characters of the uid, without its dashes, in the name; -1 for all of it",
	)
	cli.Ranged(
		f, cli.Range{Least: strconv.Itoa(minUUIDLength), Most: strconv.Itoa(maxUUIDLength), Or: "-1"},
		"volume-name-uuid-length",
	)
	f.StringVar(
		&p.Volumes.NameTemplate, "volume-name-template", "",
		"how volumes are named, instead of volume-name-prefix: a `text` with ${pvc.uid}, and optionally "+
			"${pvc.namespace} and ${pvc.name}; what is longer than 128 characters is cut in the claim's name",
	)
	f.StringVar(
		&p.Volumes.DefaultFSType, "default-fstype", "",
		"filesystem when the StorageClass names none; empty leaves it to the driver",
	)
	f.BoolVar(
		&p.Volumes.ExtraMetadata, "extra-create-metadata", false,
		"pass the names of claim, namespace and PersistentVolume to the driver",
	)
	f.BoolVar(
		&p.Volumes.PublishRO, "controller-publish-readonly", false,
		"mark volumes whose only access mode is ReadOnlyMany as read-only",
	)
	f.Var(
		sizes{&p.Volumes.MinVolumeSize}, "min-volume-size",
		"refuse claims below a size, by filesystem, such as `xfs=300Mi`,ext4=16Mi; mkfs would fail on the node later",
	)
	f.Var(
		p.driverMetadata(), "driver-metadata",
		"annotations and labels of claims and labels of their namespaces to pass to the driver, as the parameters "+
			"purser/annotation/KEY, purser/label/KEY and purser/namespace-label/KEY: "+
			"`annotation:KEY`,label:KEY,namespace-label:KEY,... With namespace-label, allow the service account to "+
			"get namespaces",
	)
	f.Var(
		p.volumeMetadata(), "volume-metadata",
		"annotations and labels to copy from a claim to its new PersistentVolume: `annotation:KEY`,label:KEY,...",
	)
	f.StringVar(
		&p.Journal.Intents, "intents", intentsBestEffort,
		"`mode` of the journal of CreateVolume requests, with which no crash leaks a volume: require (no volume is "+
			"created without an entry), best-effort (without the permission for the journal, continue with a "+
			"warning), or off",
	)
	p.Journal.SkipFlag(f)
	f.DurationVar(
		&p.Journal.OrphanAudit, "orphan-audit-interval", 0,
		"how often to compare the volumes that the driver lists with the PersistentVolumes and report those without "+
			"one; 0 for never",
	)
}

// SkipFlag adds the way on from a journal that cannot be read.
func (j *JournalSettings) SkipFlag(f *pflag.FlagSet) {
	f.BoolVar(&j.SkipUnreadable, strings.TrimPrefix(intent.FlagSkipUnreadable, "--"), false,
		"go on without a journal of CreateVolume requests that cannot be read, and keep its text in the annotation "+
			"purser/intents-unreadable of the Lease; volumes of its requests may remain in the storage system "+
			"without a PersistentVolume (reason JournalSkipped)")
}

// electionFlags adds F-43 to F-48, and Purser's own (U-57).
func (p *Provisioner) electionFlags(f *pflag.FlagSet) {
	p.Election.AddFlags(f)
	f.StringVar(
		&p.LeaseName, "leader-election-lease-name", "",
		"`name` of the provisioner's lease, the same for all instances; empty for upstream's, which is derived from "+
			"the driver's name",
	)
}

// paceFlags adds F-4 to F-6, and Purser's own (U-21).
func (p *Provisioner) paceFlags(f *pflag.FlagSet) {
	f.UintVar(
		&p.Workers, "worker-threads", 100,
		"calls to the driver in flight at once: so many that provision, and so many that delete",
	)
	f.UintVar(
		&p.Pace.DeleteWorkers, "delete-worker-threads", 0, "deleting calls in flight at once; 0 for worker-threads",
	)
	cli.RetryDelays{First: &p.RetryStart, Longest: &p.RetryMax}.AddFlags(f, time.Second, 5*time.Minute)
}

// processFlags adds F-28 and F-54.
func (p *Provisioner) processFlags(f *pflag.FlagSet) {
	f.Var(p.Gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+p.Gates.Known())
	f.BoolVar(
		&p.AutoMaxProcs, "automaxprocs", false,
		"set GOMAXPROCS from the container's CPU limit even if the environment sets it; without the flag, only if "+
			"the environment does not",
	)
}

// sourceFlags adds F-7, F-8 and F-27.
func (p *Provisioner) sourceFlags(f *pflag.FlagSet) {
	f.UintVar(
		&p.Sources.CloneWorkers, "cloning-protection-threads", 1,
		"workers that remove the finalizers of clone and snapshot sources, if more than worker-threads",
	)
	cli.Ranged(f, cli.Range{Least: "0", Most: "10000"}, "cloning-protection-threads")
	f.DurationVar(
		&p.Sources.SnapshotSweep, "snapshot-orphan-sweep-interval", 5*time.Minute,
		"how often snapshots are listed to remove finalizers that another process left; 0 for once, at the start",
	)
	cli.Ranged(f, cli.Range{Least: "0s", Most: "8760h"}, "snapshot-orphan-sweep-interval")
	f.BoolVar(
		&p.Sources.KeepVolumeMode, "prevent-volume-mode-conversion", true,
		"refuse to restore a snapshot with another volume mode than its source had",
	)
}
