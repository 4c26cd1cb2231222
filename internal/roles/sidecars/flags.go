package sidecars

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// ofProcess are flags about the whole process, which no component has for itself.
var ofProcess = []string{
	"csi-address", "exit-on-connection-loss", "kubeconfig", "master", "kube-api-qps", "kube-api-burst",
	"leader-election", "leader-election-namespace", "leader-election-lease-duration",
	"leader-election-renew-deadline", "leader-election-retry-period", "leader-election-labels",
	"leader-election-lease-name", "http-endpoint", "metrics-address", "metrics-path", "metrics-secure",
	"metrics-cert-path", "enable-pprof", "purser-life", "automaxprocs", "v", "vmodule", "logging-format",
	"log-flush-frequency", "log-text-split-stream", "log-text-info-buffer-size", "log-json-split-stream",
	"log-json-info-buffer-size", cli.FeatureGates,
}

// changes is about flags on which the name of the lease depends: two pods with different ones both lead.
const changes = "; a change can change the name of the lease, so use the strategy Recreate for it"

// AddFlags binds every setting to its flag.
func (s *Sidecars) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Sidecars", func(f *pflag.FlagSet) {
		f.BoolVar(&s.Node, "node", false,
			"run the half for each node: "+compRegistrar+" and "+compLiveness+", and with --node-deployment the "+
				"provisioner and the snapshotter of the node")
		f.StringSliceVar(&s.Without, "without", nil,
			"`components` to leave out: "+strings.Join(names, ", ")+changes)
		f.StringSliceVar(&s.Controllers, "controllers", nil,
			"the `components` to run, in place of those of the half, as KEP-4958 has it"+changes)
	})
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.StringVar(&s.Snapshotter.NamePrefix, "snapshot-name-prefix", "snapshot",
			"prefix of the names of snapshots on the backend")
		f.BoolVar(&s.Snapshotter.Controller, "snapshot-controller", false,
			"also run the cluster's snapshot-controller; there must be no other")
		f.BoolVar(&s.WithMetadata, compMetadata, false,
			"also run csi-snapshot-metadata, which needs --tls-cert and --tls-key")
	})
	s.Provisioner.AddFlags(f)
	s.Resizer.AddExpansionFlags(f)
	// --health-port is a port of both programs of the node, and the registrar's --timeout is not that of
	// calls about volumes: both are prefixed.
	cli.AddOthers(f, s.Attacher.AddFlags)
	cli.AddOthers(f, s.Resizer.AddFlags, "workers")
	cli.AddOthers(f, s.Snapshotter.AddFlags)
	cli.AddOthers(f, s.Health.AddFlags)
	cli.AddOthers(f, s.Liveness.AddFlags)
	cli.AddOthers(f, s.Registrar.AddFlags, "timeout", healthPort)
	cli.AddOthers(f, s.Metadata.AddFlags)
	s.addOverrides(f)
	s.Resizer.Given = func(flag string) bool { return f.Changed(flag) || f.Changed(compResizer+"-"+flag) }
	s.Given, s.given = f.Changed, f.Changed
}

// addOverrides adds the flags of single components: --COMPONENT-FLAG, and --workers of the resizer.
func (s *Sidecars) addOverrides(f *pflag.FlagSet) {
	o := &s.overrides
	o.AddOne(f, "", "workers", "objects that the resizer reconciles in parallel; if not given, worker-threads",
		s.Resizer.AddFlags)
	roles := map[string]cli.FlaggedRole{
		compProvisioner: s.Provisioner, compAttacher: s.Attacher, compResizer: s.Resizer,
		compSnapshotter: s.Snapshotter, compHealth: s.Health, compRegistrar: s.Registrar, compLiveness: s.Liveness,
		compMetadata: s.Metadata,
	}
	for _, name := range names {
		o.AddPrefixed(f, name, roles[name].AddFlags, slices.Concat(ofProcess, unprefixed[name])...)
		// A KEP's name that cannot mean what it says: the requests of all components have one limit.
		cli.AddRetired(f, s.Notices,
			cli.RetiredFlag{Name: name + "-kube-api-qps", Kind: "string", Now: oneLimit},
			cli.RetiredFlag{Name: name + "-kube-api-burst", Kind: "string", Now: oneLimit})
	}
	o.AddOne(f, compRegistrar, healthPort, "port of the registrar's health check alone; 0 or less for none",
		s.Registrar.AddFlags)
	o.AddOne(f, compLiveness, healthPort, "port of the health check by Probe; health-port is another name",
		s.Liveness.AddFlags)
}

// unprefixed are flags of one component that have no other name.
var unprefixed = map[string][]string{
	compRegistrar: {"kubelet-registration-path", "plugin-registration-path", "node-name"},
	compMetadata:  {"disable-metrics"},
}

// healthPort is a flag of both programs of a node.
const healthPort = "health-port"

const oneLimit = "has no effect: the requests of all components have one limit, --kube-api-qps and --kube-api-burst"
