package provisioner

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// generation has the flags that a version of upstream added (docs/spec/external-provisioner.md 1.6). Removed flags stay
// accepted.
type generation struct {
	version string
	flags   []string
	warned  []string // obsolete: accepted with a warning, without effect
}

var generations = []generation{
	{
		"0.x",
		[]string{
			"--csi-address=/csi/csi.sock", "--kubeconfig=/k", "--master=https://m", "--volume-name-prefix=pv", "--volume-name-uuid-length=16",
			"--feature-gates=Topology=true", "-v=5", "--v=5", "--vmodule=a=1",
		},
		[]string{"--provisioner=x", "--connection-timeout=15s", "--enable-leader-election", "--logtostderr", "--alsologtostderr=false", "--stderrthreshold=INFO", "--log_dir=/tmp", "--log_backtrace_at=a.go:1"},
	},
	{"1.1", []string{"--retry-interval-start=1s", "--retry-interval-max=5m", "--timeout=60s", "--worker-threads=10"}, []string{"--leader-election-type=leases", "--leader-election-type=endpoints"}},
	{"1.3", []string{"--leader-election-namespace=n", "--strict-topology", "--strict-topology=true"}, nil},
	{"1.5", []string{"--metrics-path=/m"}, []string{"--metrics-address=:8080"}}, // F-52
	{
		"1.6",
		[]string{"--extra-create-metadata=true", "--cloning-protection-threads=2"},
		[]string{"--enable-leader-election=true", "--log_file=/x", "--log_file_max_size=1800", "--skip_headers", "--skip_log_headers=true", "--add_dir_header"},
	},
	{
		"2.0",
		[]string{
			"--default-fstype=ext4", "--kube-api-qps=5", "--kube-api-qps=-1", "--kube-api-burst=10", "--leader-election", "--capacity-threads=2",
			"--capacity-poll-interval=30s", "--capacity-for-immediate-binding", "--capacity-ownerref-level=2",
		},
		[]string{"--capacity-controller-deployment-mode=none"},
	},
	{
		"2.1",
		[]string{
			"--enable-capacity=false", "--http-endpoint=:8080", "--immediate-topology=false", "--node-deployment=false",
			"--node-deployment-immediate-binding=false", "--node-deployment-base-delay=1s", "--node-deployment-max-delay=60s",
		},
		[]string{"--one_output"},
	},
	{
		"3.0",
		[]string{"--controller-publish-readonly=true", "--leader-election-lease-duration=137s", "--leader-election-renew-deadline=107s", "--leader-election-retry-period=26s"},
		nil,
	},
	{
		"3.2",
		[]string{"--enable-pprof", "--kube-api-capacity-qps=1", "--kube-api-capacity-burst=5", "--prevent-volume-mode-conversion=true", "--prevent-volume-mode-conversion=false"},
		nil,
	},
	{
		"5.0",
		[]string{"--feature-gates=Topology=true", "--feature-gates=VolumeAttributesClass=true", "--feature-gates=VolumeAttributesClass=false"},
		[]string{"--feature-gates=HonorPVReclaimPolicy=true"},
	},
	{"5.2", []string{"--logging-format=json", "--log-flush-frequency=5s"}, nil},
	{"5.3", []string{"--automaxprocs", "--automaxprocs=false"}, nil},
	{"6.0", []string{"--feature-gates=ReleaseLeaderElectionOnExit=true"}, nil},
	{"6.2", []string{"--leader-election-labels=a:b,c/d:e"}, nil},
	{"6.3", []string{"--snapshot-orphan-sweep-interval=0"}, nil},
	{
		"6.4",
		[]string{"--log-text-split-stream=false", "--log-text-info-buffer-size=0", "--log-json-split-stream=false", "--log-json-info-buffer-size=0"},
		nil,
	},
	{"purser", []string{"--min-volume-size=xfs=300Mi,ext4=16Mi", "--intents=best-effort", "--capacity-max-age=1h", "--orphan-audit-interval=1h", "--exit-on-connection-loss", "--purser-reap-removed-nodes=forget", "--purser-reap-removed-nodes-after=2h", "--purser-skip-unreadable-journal", "--purser-life", "--purser-trace-annotation", "--metrics-secure", "--metrics-cert-path=/certs"}, nil},
	{"purser", []string{"--create-timeout=1m", "--delete-timeout=2m", "--delete-worker-threads=10", "--leader-election-lease-name=disks", "--volume-name-template=${pvc.uid}"}, nil},
	{"purser", []string{"--assertive-topology", "--max-topology-terms=100"}, nil},
	{"purser", []string{"--driver-metadata=annotation:a,label:b/c,namespace-label:d", "--volume-metadata=label:b/c,annotation:e"}, nil},
}

func parsed(t *testing.T, args ...string) (*Provisioner, error) {
	t.Helper()
	p := New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	p.AddFlags(f)
	return p, f.Parse(args)
}

// Every flag of every version parses: CL-6, CL-7, O-1, O-2, O-20, section 15.5 number 6.
func TestFlagsOfEveryVersion(t *testing.T) {
	for _, g := range generations {
		for _, arg := range g.flags {
			if p, err := parsed(t, arg); err != nil || len(p.Notices.Lines) > 0 || p.Validate() != nil {
				t.Errorf("%s %s: %v, %v, notices %v", g.version, arg, err, p.Validate(), p.Notices.Lines)
			}
		}
		for _, arg := range g.warned {
			p, err := parsed(t, arg, arg)
			if err != nil || p.Validate() != nil {
				t.Errorf("%s %s: %v, %v", g.version, arg, err, p.Validate())
				continue
			}
			if len(p.Notices.Lines) != 1 || !strings.HasPrefix(arg, p.Notices.Lines[0].Flag) || p.Notices.Lines[0].Text == "" {
				t.Errorf("%s %s: want one notice about the flag, got %v", g.version, arg, p.Notices.Lines)
			}
		}
	}
}

// The table above has every flag, so that no flag is added without its version.
func TestFlagsAreAllInTheTable(t *testing.T) {
	var listed []string
	for _, g := range generations {
		for _, arg := range slices.Concat(g.flags, g.warned) {
			name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			listed = append(listed, name)
		}
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	New().AddFlags(f)
	var missing []string
	f.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(listed, flag.Name) && flag.Name != "legacy_stderr_threshold_behavior" {
			missing = append(missing, flag.Name)
		}
	})
	if len(missing) > 0 {
		t.Errorf("flags without a version: %q", missing)
	}
}

// F-1 to F-62: the defaults are upstream's, except that API requests are not limited by the client.
func TestFlagDefaults(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	New().AddFlags(f)
	want := map[string]string{
		"volume-name-prefix": "pvc", "volume-name-uuid-length": "-1", "retry-interval-start": "1s", "retry-interval-max": "5m0s",
		"worker-threads": "100", "cloning-protection-threads": "1", "snapshot-orphan-sweep-interval": "5m0s", "capacity-threads": "1",
		"timeout": "10s", "strict-topology": "false", "immediate-topology": "true", "extra-create-metadata": "false", "enable-pprof": "false",
		"default-fstype": "", "kube-api-capacity-qps": "0", "kube-api-capacity-burst": "0", "enable-capacity": "false",
		"capacity-for-immediate-binding": "false", "capacity-poll-interval": "1m0s", "capacity-ownerref-level": "1", "node-deployment": "false",
		"node-deployment-immediate-binding": "true", "node-deployment-base-delay": "20s", "node-deployment-max-delay": "1m0s",
		"controller-publish-readonly": "false", "prevent-volume-mode-conversion": "true", "kubeconfig": "", "csi-address": "/run/csi/socket",
		"leader-election": "false", "leader-election-namespace": "", "leader-election-lease-duration": "15s", "leader-election-renew-deadline": "10s",
		"leader-election-retry-period": "5s", "leader-election-labels": "", "http-endpoint": "", "metrics-address": "", "metrics-path": "/metrics",
		"automaxprocs": "false", "logging-format": "text", "log-flush-frequency": "5s", "v": "0",
		"kube-api-qps": "0", "kube-api-burst": "0",
	}
	got := map[string]string{}
	for name := range want {
		if flag := f.Lookup(name); flag != nil {
			got[name] = flag.DefValue
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// CL-1, CL-2, F-48: what upstream refuses while it parses is refused here too.
func TestFlagsRefused(t *testing.T) {
	for _, arg := range []string{
		"-csi-address=/x", "--no-such-flag", "--timeout=10", "--worker-threads=-1", "--leader-election=maybe", "--leader-election-labels=a=b",
		"--leader-election-labels=a b:c", "--leader-election-type=configmaps", "--enable-leader-election=maybe", "--logtostderr=maybe",
		"--capacity-controller-deployment-mode=moon", "--min-volume-size=xfs", "--min-volume-size=xfs=0", "--min-volume-size=xfs=many",
		"--driver-metadata=a", "--driver-metadata=colour:a", "--driver-metadata=label:", "--driver-metadata=label:a b", "--volume-metadata=namespace-label:a",
		"--volume-metadata=label:topology.kubernetes.io/zone", "--volume-metadata=annotation:pv.kubernetes.io/provisioned-by",
		"--volume-metadata=annotation:purser/reuse", "--volume-metadata=annotation:pv.beta.kubernetes.io/gid", "--volume-metadata=annotation:volume.alpha.kubernetes.io/node-affinity",
		"--volume-metadata=annotation:volume.kubernetes.io/provisioner-deletion-secret-name", "--feature-gates=Nonsense=true", "--feature-gates=Topology=perhaps", "--feature-gates=Topology",
	} {
		if _, err := parsed(t, arg); err == nil {
			t.Errorf("%s: accepted", arg)
		}
	}
}

func TestMinVolumeSize(t *testing.T) {
	p, err := parsed(t, "--min-volume-size=XFS=300Mi,ext4=16Mi", "--min-volume-size=btrfs=1Gi") // O-30: lookups ignore case
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"xfs": 300 << 20, "ext4": 16 << 20, "btrfs": 1 << 30}, p.Volumes.MinVolumeSize); diff != "" {
		t.Error(diff)
	}
}

// U-50 to U-52.
func TestMetadataFlags(t *testing.T) {
	p, err := parsed(t, "--driver-metadata=annotation:a,label:b/c", "--driver-metadata=label:b/c,namespace-label:d", "--volume-metadata=label:app.kubernetes.io/name")
	if err != nil {
		t.Fatal(err)
	}
	want := []provision.MetadataKey{{Source: "annotation", Key: "a"}, {Source: "label", Key: "b/c"}, {Source: "namespace-label", Key: "d"}}
	if diff := cmp.Diff(want, p.Volumes.DriverMetadata); diff != "" || !p.readsNamespaces() {
		t.Error(diff)
	}
	if got := p.volumeMetadata().String(); got != "label:app.kubernetes.io/name" {
		t.Errorf("U-52: %q", got)
	}
	options := p.options("csi.example")
	if len(options.DriverMetadata) != 3 || len(options.VolumeMetadata) != 1 {
		t.Errorf("the decisions do not know of it: %+v", options)
	}
}

// leaseOf returns the name of the lease for the driver csi.example.
func leaseOf(p *Provisioner) string {
	s := sidecar.Sidecar{Config: &p.Config, Driver: csirpc.Description{Name: "csi.example"}, Role: sidecar.Role{Lease: process.DriverLeaseName}}
	return s.LeaseName()
}

// U-21, U-29, U-57: flags that are not given keep upstream's defaults.
func TestOwnPaceAndLease(t *testing.T) {
	plain, _ := parsed(t, "--timeout=7s")
	if plain.createTimeout() != 7*time.Second || plain.deleteTimeout() != 7*time.Second || leaseOf(plain) != "csi-example" {
		t.Errorf("%s, %s, %s", plain.createTimeout(), plain.deleteTimeout(), leaseOf(plain))
	}
	own, _ := parsed(t, "--timeout=7s", "--create-timeout=1m", "--delete-timeout=2m", "--leader-election-lease-name=disks")
	if own.createTimeout() != time.Minute || own.deleteTimeout() != 2*time.Minute || leaseOf(own) != "disks" {
		t.Errorf("%s, %s, %s", own.createTimeout(), own.deleteTimeout(), leaseOf(own))
	}
	if few, _ := parsed(t, "--worker-threads=7", "--delete-worker-threads=3"); few.deleteWorkers() != 3 || few.Workers != 7 || plain.deleteWorkers() != 100 {
		t.Errorf("U-21: %d, %d", few.deleteWorkers(), plain.deleteWorkers())
	}
	if own.longestCall() != 2*time.Minute || own.drainTime() <= own.longestCall() { // otherwise a new leader does not wait for the call
		t.Errorf("%s, %s", own.longestCall(), own.drainTime())
	}
}

// CL-8, G-1 to G-5.
func TestGates(t *testing.T) {
	p, err := parsed(t, "--feature-gates=HonorPVReclaimPolicy=true,Topology=false", "--feature-gates=VolumeAttributesClass=true")
	if err != nil {
		t.Fatal(err)
	}
	if p.Gates.Enabled(GateTopology) || !p.Gates.Enabled(GateVolumeAttributesClass) || !p.Gates.Given(GateTopology) || p.Gates.Given(GateCrossNamespaceSource) {
		t.Error("the gates are not as given")
	}
	if p, err = parsed(t, "--feature-gates=CrossNamespaceVolumeDataSource=true"); err != nil || len(p.Notices.Lines) != 0 || !p.options("d").CrossNamespace {
		t.Errorf("G-2: %v, %v", err, p.Notices.Lines)
	}
	if !New().Gates.Enabled(GateReleaseLeaseOnShutdown) {
		t.Error("U-59: the lease is not released by default")
	}
}

// G-6: all gates of a stage can be switched at once. The one whose default is not upstream's stays
// as it is unless it is named.
func TestGatesOfAStage(t *testing.T) {
	for _, tc := range []struct {
		gates          string
		cross, release bool
		notices        int
	}{
		{"AllAlpha=true", true, true, 1},
		{"AllAlpha=false", false, true, 1},
		{"AllBeta=true", false, true, 1},
		{"AllBeta=false", false, true, 1},
		{"AllAlpha=true,CrossNamespaceVolumeDataSource=false", false, true, 1},
		{"AllAlpha=true,ReleaseLeaderElectionOnExit=false", true, false, 1},
		{"AllAlpha=false,ReleaseLeaderElectionOnExit=false", false, false, 1},
	} {
		p, err := parsed(t, "--feature-gates="+tc.gates)
		if err != nil {
			t.Errorf("%s: %v", tc.gates, err)
			continue
		}
		if cross, release := p.Gates.Enabled(GateCrossNamespaceSource), p.Gates.Enabled(GateReleaseLeaseOnShutdown); cross != tc.cross || release != tc.release {
			t.Errorf("%s: CrossNamespaceVolumeDataSource=%v ReleaseLeaderElectionOnExit=%v", tc.gates, cross, release)
		}
		if len(p.Notices.Lines) != tc.notices || !p.Gates.Enabled(GateTopology) {
			t.Errorf("%s: notices %v", tc.gates, p.Notices.Lines)
		}
	}
	p, err := parsed(t, "--feature-gates=ReleaseLeaderElectionOnExit=false", "--feature-gates=AllAlpha=true")
	if err != nil || p.Gates.Enabled(GateReleaseLeaseOnShutdown) {
		t.Errorf("named before: %v", err)
	}
}

// F-7, F-9, F-16 to F-25: settings of disabled features have no effect, so their values are not
// validated.
func TestSettingsWithoutEffect(t *testing.T) {
	for _, arg := range []string{
		"--cloning-protection-threads=0", "--snapshot-orphan-sweep-interval=-1s", "--capacity-threads=0", "--capacity-poll-interval=0", "--capacity-ownerref-level=3",
		"--kube-api-capacity-qps=-1", "--kube-api-capacity-burst=-1", "--node-deployment-base-delay=90s", "--node-deployment-max-delay=1s",
	} {
		p, err := parsed(t, arg)
		if err != nil || p.Validate() != nil {
			t.Errorf("%s: %v, %v", arg, err, p.Validate())
		}
	}
}

// EN-3, EN-4: what --enable-capacity needs.
func TestCapacityEnvironment(t *testing.T) {
	for _, tc := range []struct {
		args           []string
		namespace, pod string
		want           string
	}{
		{nil, "system", "pod", ""},
		{nil, "", "pod", "NAMESPACE"},
		{nil, "system", "", "POD_NAME"},
		{[]string{"--capacity-ownerref-level=-1"}, "system", "", ""},
		{[]string{"--capacity-ownerref-level=-2"}, "system", "pod", "--capacity-ownerref-level"},
		{[]string{"--capacity-ownerref-level=2", "--capacity-threads=5", "--kube-api-capacity-qps=-1"}, "system", "pod", ""},
	} {
		t.Setenv("NAMESPACE", tc.namespace)
		t.Setenv("POD_NAME", tc.pod)
		p, err := parsed(t, append([]string{"--enable-capacity"}, tc.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc, err, tc.want)
		}
	}
}

// S-18, H-31: the rate limit of the capacities is separate from that of other requests.
func TestCapacityBudget(t *testing.T) {
	p, err := parsed(t, "--kube-api-qps=7", "--kube-api-capacity-qps=3")
	if err != nil {
		t.Fatal(err)
	}
	p.API = &rest.Config{Host: "https://example.invalid"}
	access := &p.APIAccess
	api, err := access.Config("test")
	if err != nil {
		t.Fatal(err)
	}
	own := p.Capacity.limit(api)
	if own.RateLimiter == nil || own.RateLimiter == api.RateLimiter || own.RateLimiter.QPS() != 3 || api.RateLimiter.QPS() != 7 {
		t.Errorf("capacities %v, all others %v", own.RateLimiter, api.RateLimiter)
	}
	if p.Capacity.KubeAPIQPS = 0; p.Capacity.limit(api).RateLimiter != nil {
		t.Error("a limit without the flag")
	}
}

// CL-9: one message lists every mistake, and each names its flag.
func TestValidateListsEveryMistake(t *testing.T) {
	p, err := parsed(t,
		"--csi-address=relative", "--timeout=0", "--worker-threads=0", "--volume-name-uuid-length=0", "--volume-name-prefix=", "--retry-interval-start=10m", "--retry-interval-max=5m",
		"--kube-api-qps=NaN", "--kube-api-burst=-1", "--http-endpoint=:1", "--metrics-address=:2", "--metrics-path=metrics", "--enable-capacity", "--capacity-threads=0", "--capacity-poll-interval=0", "--capacity-max-age=-1s",
		"--kube-api-capacity-qps=NaN", "--kube-api-capacity-burst=-1",
		"--node-deployment",
		"--intents=perhaps", "--leader-election", "--leader-election-lease-duration=5s", "--leader-election-retry-period=9s",
		"--create-timeout=-1s", "--delete-timeout=-1s",
		"--leader-election-lease-name=Not_a_name")
	if err != nil {
		t.Fatal(err)
	}
	message := p.Validate().Error()
	for _, flag := range []string{
		"--csi-address", "--timeout", "--worker-threads", "--volume-name-uuid-length", "--volume-name-prefix", "--retry-interval-max", "--kube-api-qps",
		"--kube-api-burst", "--metrics-address and --http-endpoint", "--metrics-path", "--enable-capacity", "--capacity-ownerref-level", "--capacity-threads", "--capacity-poll-interval",
		"--capacity-max-age", "--kube-api-capacity-qps", "--kube-api-capacity-burst", "--node-deployment", "--intents", "--leader-election-lease-duration",
		"--leader-election-renew-deadline", "--create-timeout",
		"--delete-timeout", "--leader-election-lease-name",
	} {
		if !strings.Contains("\n"+message, "\n"+flag) {
			t.Errorf("no line about %s in:\n%s", flag, message)
		}
	}
}

// F-53: the path of the metrics is validated only if HTTP is served.
func TestMetricsPath(t *testing.T) {
	for path, good := range map[string]bool{
		"/metrics": true, "/a/b": true, "": false, "metrics": false, "/livez": false, "/healthz": false, "/readyz": false, "/healthz/leader-election": false,
		"/debug/pprof/x": false, "/a b": false, "/{x}": false,
	} {
		for address, want := range map[string]bool{"--http-endpoint=:1": good, "--metrics-address=:1": good, "--http-endpoint=": true} {
			p, err := parsed(t, address, "--metrics-path="+path)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Validate(); (err == nil) != want {
				t.Errorf("F-53 %s --metrics-path=%s: %v", address, path, err)
			}
		}
		process.NewHTTPServer(process.HTTPConfig{MetricsPath: path, Metrics: prometheus.NewRegistry()}) // does not panic
	}
}
