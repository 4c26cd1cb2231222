package roles

import (
	"time"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// AddFlags binds every setting to its flag.
func (p *Provisioner) AddFlags(f *pflag.FlagSet) {
	p.given = f.Changed
	grouped(f, "Driver", p.driverFlags)
	grouped(f, "API server", p.flags)
	grouped(f, "Volumes", p.volumeFlags)
	grouped(f, "Topology", p.topologyFlags)
	grouped(f, "Pace", p.paceFlags)
	grouped(f, "Leader election", p.electionFlags)
	grouped(f, "Metrics and health", p.httpFlags)
	grouped(f, "Process", p.processFlags)
	grouped(f, "Logs", loggingFlags(p.Logging))
	grouped(f, "Sources of volumes (not there yet)", p.sourceFlags)
	grouped(f, "Storage capacity (not there yet)", p.Capacity.flags)
	grouped(f, "One instance per node (not there yet)", p.NodeDeployment.flags)
	grouped(f, "Of older versions", p.retiredFlags)
	marked(f, markNew, "min-volume-size", "volume-name-template", "driver-metadata", "volume-metadata", "intents", "orphan-audit-interval", "exit-on-connection-loss",
		"create-timeout", "delete-timeout", "delete-worker-threads", "leader-election-lease-name")
	marked(f, markDeprecated, "metrics-address")
}

// driverFlags are F-10 and F-42, and our own (U-29).
func (p *Provisioner) driverFlags(f *pflag.FlagSet) {
	f.StringVar(&p.CSIAddress, "csi-address", "/run/csi/socket", "the driver's socket: an absolute `path`, or unix:// with one")
	f.DurationVar(&p.Timeout, "timeout", 10*time.Second, "for each call to the driver")
	f.DurationVar(&p.CreateTimeout, "create-timeout", 0, "for CreateVolume, when it takes longer than other calls; 0 for timeout")
	f.DurationVar(&p.DeleteTimeout, "delete-timeout", 0, "for DeleteVolume, likewise; 0 for timeout")
	f.BoolVar(&p.ExitOnConnectionLoss, "exit-on-connection-loss", false, "end when the connection to the driver breaks, as upstream does, instead of connecting again")
}

// volumeFlags are F-2, F-3, F-13, F-15, F-26 and our own.
func (p *Provisioner) volumeFlags(f *pflag.FlagSet) {
	f.StringVar(&p.NamePrefix, "volume-name-prefix", defaultNamePrefix, "volumes are named `PREFIX`-<uid of the claim>")
	f.IntVar(&p.NameUUIDLength, "volume-name-uuid-length", -1, "characters of the uid, without its dashes, in the name; -1 for all of it")
	f.StringVar(&p.NameTemplate, "volume-name-template", "", "how volumes are named, instead of volume-name-prefix: a `text` with ${pvc.uid}, and with ${pvc.namespace} and ${pvc.name} if you like; what is longer than 128 characters is cut in the claim's name")
	f.StringVar(&p.DefaultFSType, "default-fstype", "", "filesystem when the StorageClass names none; empty leaves it to the driver")
	f.BoolVar(&p.ExtraMetadata, "extra-create-metadata", false, "tell the driver the names of claim, namespace and PersistentVolume")
	f.BoolVar(&p.PublishRO, "controller-publish-readonly", false, "mark volumes whose only access mode is ReadOnlyMany as read-only")
	f.Var(sizes{&p.MinVolumeSize}, "min-volume-size", "refuse claims below a size, by filesystem, such as `xfs=300Mi`,ext4=16Mi; mkfs would fail on the node later")
	f.Var(p.driverMetadata(), "driver-metadata", "annotations and labels of claims and labels of their namespaces to tell the driver, as the parameters purser/annotation/KEY, purser/label/KEY and purser/namespace-label/KEY: `annotation:KEY`,label:KEY,namespace-label:KEY,... With namespace-label, allow the service account to get namespaces")
	f.Var(p.volumeMetadata(), "volume-metadata", "annotations and labels to copy from a claim to its new PersistentVolume: `annotation:KEY`,label:KEY,...")
	f.StringVar(&p.Intents, "intents", intentsBestEffort, "`mode` of the journal of volumes that are being created, which no crash loses: require (no volume is created without a record), best-effort (without permission for the journal, go on with a warning), or off")
	f.DurationVar(&p.OrphanAudit, "orphan-audit-interval", 0, "how often to compare the volumes that the driver lists with the PersistentVolumes and report those that nobody knows of; 0 for never")
}

// topologyFlags are F-11 and F-12.
func (p *Provisioner) topologyFlags(f *pflag.FlagSet) {
	f.BoolVar(&p.StrictTopology, "strict-topology", false, "ask for a volume at the selected node only; this version always does")
	f.BoolVar(&p.Immediate, "immediate-topology", true, "for classes with immediate binding, name all places of the cluster to the driver; this version never does")
}

// electionFlags are F-43 to F-48, and our own (U-57).
func (p *Provisioner) electionFlags(f *pflag.FlagSet) {
	p.Election.flags(f)
	f.StringVar(&p.LeaseName, "leader-election-lease-name", "", "`name` of the provisioner's lease, the same for all instances; empty for upstream's, which is made from the driver's name")
}

// paceFlags are F-4 to F-6, and our own (U-21).
func (p *Provisioner) paceFlags(f *pflag.FlagSet) {
	f.UintVar(&p.Workers, "worker-threads", 100, "calls to the driver that provision, and again that delete, under way at once")
	f.UintVar(&p.DeleteWorkers, "delete-worker-threads", 0, "calls that delete under way at once; 0 for worker-threads")
	f.DurationVar(&p.RetryStart, "retry-interval-start", time.Second, "first delay after a failure; it doubles with each further one")
	f.DurationVar(&p.RetryMax, "retry-interval-max", 5*time.Minute, "longest delay after a failure")
}

// httpFlags are F-14 and F-51 to F-53.
func (p *Provisioner) httpFlags(f *pflag.FlagSet) {
	f.StringVar(&p.HTTPEndpoint, "http-endpoint", "", "`address`, such as :8080, to serve metrics and health on; empty for none")
	f.StringVar(&p.MetricsAddress, "metrics-address", "", "older name of http-endpoint, an `address` without /healthz/leader-election; give only one of the two")
	f.StringVar(&p.MetricsPath, "metrics-path", "/metrics", "HTTP `path` of the metrics")
	f.BoolVar(&p.Pprof, "enable-pprof", false, "serve profiles of the process below /debug/pprof/ too")
}

// processFlags are F-28 and F-54.
func (p *Provisioner) processFlags(f *pflag.FlagSet) {
	f.Var(p.Gates, "feature-gates", "features to switch, as `NAME=BOOL`,...: "+p.Gates.known())
	f.BoolVar(&p.AutoMaxProcs, "automaxprocs", false, "take GOMAXPROCS from the container's CPU limit even if the environment sets it; without the flag that happens when the environment does not")
}

// sourceFlags are F-7, F-8 and F-27.
func (p *Provisioner) sourceFlags(f *pflag.FlagSet) {
	f.UintVar(&p.CloneWorkers, "cloning-protection-threads", 1, "clone sources that are released at once")
	f.DurationVar(&p.SnapshotSweep, "snapshot-orphan-sweep-interval", 5*time.Minute, "how often snapshots are searched for finalizers that nobody needs; 0 for never")
	f.BoolVar(&p.KeepVolumeMode, "prevent-volume-mode-conversion", true, "refuse to restore a snapshot with another volume mode than its source had")
}

// loggingFlags are those of the Kubernetes components (F-60 to F-62). Four of them need a gate that no program of this kind can
// set; upstream shows them all the same (F-63).
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
