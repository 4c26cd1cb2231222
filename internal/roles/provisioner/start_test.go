package provisioner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/test/rolestest"
)

// CL-1: upstream ignores arguments that are not flags, so manifests exist with a value without its
// =, or with an empty argument. They still work.
func TestStrayArguments(t *testing.T) {
	p := New()
	if err := p.takeStray(nil, []string{"true", "", "false", "true"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, n := range p.Notices.Lines {
		told = append(told, n.Flag)
	}
	if want := []string{"true", "false"}; !slices.Equal(told, want) {
		t.Errorf("CL-1: told about %q, want %q", told, want)
	}
}

// F-5: the first delay may be above the longest one if only one of them is given, as with upstream,
// where the longest one counts. If both are given, it is a mistake.
func TestRetryIntervals(t *testing.T) {
	for _, tc := range []struct {
		args    string
		good    bool
		notices int
	}{
		{"", true, 0},
		{"--retry-interval-start=10m", true, 1},
		{"--retry-interval-max=500ms", true, 1},
		{"--retry-interval-start=10s --retry-interval-max=5s", false, 0},
		{"--retry-interval-start=5s --retry-interval-max=10s", true, 0},
		{"--retry-interval-max=0s", false, 0},
	} {
		p, err := parsed(t, strings.Fields(tc.args)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != tc.good || tc.good && len(p.Notices.Lines) != tc.notices {
			t.Errorf("F-5 %s: %v, notices %v", tc.args, err, p.Notices.Lines)
		}
	}
}

// G-6: upstream shares its gates with the API server's library, so those gates are accepted, with a
// warning that they have no effect.
func TestGatesOfTheServer(t *testing.T) {
	p, err := parsed(t, "--feature-gates=APIServerTracing=true,Topology=false,WatchList=false,WatchListCompression=true")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, n := range p.Notices.Lines {
		told = append(told, n.Flag)
	}
	if want := []string{"--feature-gates=APIServerTracing", "--feature-gates=WatchList", "--feature-gates=WatchListCompression"}; !slices.Equal(told, want) {
		t.Errorf("G-6: told about %q, want %q", told, want)
	}
	if p.Gates.Enabled(GateTopology) || p.Gates.Given("APIServerTracing") {
		t.Error("G-6: the gates are not as given")
	}
	for gate := range gateTable.Specs {
		if slices.Contains(cli.LibraryGates, string(gate)) {
			t.Errorf("G-6: %s is ours", gate)
		}
	}
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: x\n", server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ST-2, EN-1, F-41: the address of the API server. The environment takes precedence over the flag,
// and without both the in-cluster configuration is used.
func TestAPIServerIsFound(t *testing.T) {
	flag, env := kubeconfig(t, "https://flag"), kubeconfig(t, "https://env")
	for _, tc := range []struct {
		row, env, flag, master, want string
	}{
		{"F-41 the flag", "", flag, "", "https://flag"},
		{"EN-1 the environment wins", env, flag, "", "https://env"},
		{"EN-1 the environment alone", env, "", "", "https://env"},
		{"F-1 the master's address wins over the kubeconfig's", "", flag, "https://master", "https://master"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.env)
			a := process.APIAccess{Kubeconfig: tc.flag, Master: tc.master}
			api, err := a.Config("agent")
			if err != nil || api.Host != tc.want || api.UserAgent != "agent" {
				t.Errorf("%+v, %v, want %s", api, err, tc.want)
			}
		})
	}
}

// EN-6: the in-cluster address comes from the environment, and without it the error says what to
// set.
func TestAPIServerAroundThePod(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := (&process.APIAccess{}).Config(""); !errors.Is(err, rest.ErrNotInCluster) || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("EN-6 outside of a cluster: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	api, err := (&process.APIAccess{}).Config("")
	if errors.Is(err, os.ErrNotExist) { // the pod's token, since this is no pod
		return
	}
	if err != nil || api.Host != "https://10.0.0.1:443" {
		t.Errorf("EN-6 in a cluster: %+v, %v", api, err)
	}
}

// ST-2, F-49, F-50: requests are limited only where a flag says so, and the caller's configuration
// stays as it is.
func TestAPIServerLimits(t *testing.T) {
	given := &rest.Config{Host: "https://h", QPS: 3, Burst: 4}
	for _, tc := range []struct {
		row   string
		qps   float32
		burst int
		want  string
	}{
		{"F-49 none", 0, 0, "-1 0"},
		{"F-49 less than none is none", -1, 7, "-1 7"},
		{"F-49 F-50 both", 5, 10, "5 10"},
		{"F-50 burst follows", 5, 0, "5 11"},
	} {
		api, err := (&process.APIAccess{API: given, KubeAPIQPS: tc.qps, KubeAPIBurst: tc.burst}).Config("")
		if got := fmt.Sprint(api.QPS, " ", api.Burst); err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", tc.row, got, err, tc.want)
		}
	}
	// 8.9: the roles of one process share one limit for all resources; without a limit no request
	// waits.
	one := process.APIAccess{API: given, KubeAPIQPS: 1}
	one.ShareThrottle()
	two := one
	first, err1 := one.Config("")
	second, err2 := two.Config("")
	if err1 != nil || err2 != nil || first.RateLimiter == nil || first.RateLimiter != second.RateLimiter || rest.CopyConfig(first).RateLimiter != first.RateLimiter {
		t.Errorf("8.9: %v, %v, %v, %v", first.RateLimiter, second.RateLimiter, err1, err2)
	}
	if free, err := (&process.APIAccess{API: given}).Config(""); err != nil || free.RateLimiter != nil {
		t.Errorf("8.9 no limit: %v, %v", free.RateLimiter, err)
	}
	if given.QPS != 3 || given.UserAgent != "" {
		t.Errorf("H-31: the caller's configuration was changed: %+v", given)
	}
}

// EN-7, F-54: GOMAXPROCS of the environment counts unless --automaxprocs is given.
func TestAutoMaxProcs(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		t.Skip("one processor: there is no difference to see")
	}
	defer runtime.SetDefaultGOMAXPROCS()
	for _, tc := range []struct {
		args []string
		want int
	}{{nil, 1}, {[]string{"--automaxprocs"}, all}} {
		runtime.GOMAXPROCS(1) // as the environment variable does
		p, err := parsed(t, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		p.Log = (&rolestest.Log{}).Logger()
		if _, err := p.StartLogging(t.Context(), p.Log); err != nil {
			t.Fatal(err)
		}
		if got := runtime.GOMAXPROCS(0); got != tc.want {
			t.Errorf("EN-7 %q: %d, want %d", tc.args, got, tc.want)
		}
	}
}

// ST-9: the identity of the provisioner in a volume has upstream's form.
func TestIdentityOfVolumes(t *testing.T) {
	before := time.Now().UnixMilli()
	identity := New().options("csi.example").Identity
	parts := regexp.MustCompile(`^(\d{13})-(\d{1,4})-csi\.example$`).FindStringSubmatch(identity)
	if parts == nil || parts[1] < fmt.Sprint(before) {
		t.Errorf("ST-9: %q", identity)
	}
}

// C-56, F-2, H-11: a prefix that makes invalid volume names is refused at the start, and not for
// each claim.
func TestVolumeNamesAtTheStart(t *testing.T) {
	for flag, good := range map[string]bool{
		"--volume-name-prefix=pvc": true, "--volume-name-prefix=team.a-vol": true, "--volume-name-prefix=": false, "--volume-name-prefix=Vol": false,
		"--volume-name-prefix=" + strings.Repeat("p", 216): true, "--volume-name-prefix=" + strings.Repeat("p", 217): false, // with a uid: 253 and 254
		"--volume-name-prefix=-x": false, "--volume-name-prefix=a_b": false, "--volume-name-uuid-length=-1": true, "--volume-name-uuid-length=32": true,
		"--volume-name-uuid-length=8": true, "--volume-name-uuid-length=7": false, "--volume-name-uuid-length=33": false, "--volume-name-uuid-length=-2": false,
	} {
		p, err := parsed(t, flag)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != good {
			t.Errorf("C-56 %s: %v", flag, err)
		}
	}
}

// U-53: a name template is refused if it could give a claim an invalid volume name, or two claims
// the same.
func TestVolumeNameTemplate(t *testing.T) {
	for template, want := range map[string]string{
		"${pvc.namespace}-${pvc.name}-${pvc.uid}": "", "x.${pvc.uid}": "", "": "", "${pvc.name}": "must have ${pvc.uid}", "${pvc.uid}-": "cannot be the name",
		"X${pvc.uid}": "cannot be the name", "${pvc.label}-${pvc.uid}": "known are", "${pvc.uid}" + strings.Repeat("x", 100): "at most 128",
	} {
		p, err := parsed(t, "--volume-name-template="+template)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("U-53 %q: %v", template, err)
		}
		if p.options("csi.example").NameTemplate != template {
			t.Errorf("U-53 %q: names are not made of it", template)
		}
	}
	if p, _ := parsed(t, "--volume-name-template=${pvc.uid}", "--volume-name-prefix=pv"); p.Validate() == nil {
		t.Error("U-53: with a prefix it is accepted")
	}
}

// T-1, G-1: requests have no topology if the driver has none or the gate is off.
func TestTopologyGate(t *testing.T) {
	for _, tc := range []struct {
		row, args string
		driver    bool // announces topology
		want      bool
	}{
		{"T-1 a driver with topology", "", true, true},
		{"T-1 a driver without", "", false, false},
		{"G-1 the gate is off", "--feature-gates=Topology=false", true, false},
	} {
		t.Run(tc.row, func(t *testing.T) {
			p, err := parsed(t, strings.Fields(tc.args)...)
			if err != nil {
				t.Fatal(err)
			}
			w := builder{&sidecar.Sidecar{Config: &p.Config}, p}
			w.Driver.Plugin = map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS: tc.driver}
			if w.topology() != tc.want {
				t.Errorf("topology matters: %v", w.topology())
			}
		})
	}
}

// F-11, F-12, U-32, T-30: the flags about topology become the rules of requests.
func TestTopologyFlags(t *testing.T) {
	for _, tc := range []struct {
		args string
		want topology.Rules
	}{
		{"", topology.Rules{Immediate: true}},
		{"--strict-topology --immediate-topology=false", topology.Rules{Strict: true}},
		{"--assertive-topology --max-topology-terms=3", topology.Rules{Immediate: true, Assertive: true, MaxTerms: 3}},
	} {
		p, err := parsed(t, strings.Fields(tc.args)...)
		if err != nil || p.Validate() != nil {
			t.Fatal(err, p.Validate())
		}
		if got := p.options("d").Topology; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.args, got, tc.want)
		}
	}
	if p, _ := parsed(t, "--max-topology-terms=-1"); p.Validate() == nil {
		t.Error("--max-topology-terms=-1 is accepted")
	}
}
