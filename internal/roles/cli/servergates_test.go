package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/featuregate"
)

// 3.1: a gate of kube-controller-manager has the default of the API server's version, unless the command line
// says otherwise.
func TestGateByServer(t *testing.T) {
	const gate featuregate.Feature = "UnusedSince"
	table := GateTable{ByServer: map[featuregate.Feature]featuregate.VersionedSpecs{gate: {
		{Version: version.MajorMinor(1, 36), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MajorMinor(1, 37), Default: true, PreRelease: featuregate.Beta},
	}}}
	for name, tc := range map[string]struct {
		server string // empty for unknown
		flag   string
		want   bool
	}{
		"before the gate":          {"1.35", "", false},
		"alpha":                    {"1.36", "", false},
		"beta":                     {"1.37", "", true},
		"later":                    {"1.40", "", true},
		"another major":            {"2.0", "", true},
		"unknown":                  {"", "", false},
		"unknown, on":              {"", "UnusedSince=true", true},
		"before, on":               {"1.35", "UnusedSince=true", true},
		"alpha, on":                {"1.36", "UnusedSince=true", true},
		"beta, off":                {"1.37", "UnusedSince=false", false},
		"alpha, all alpha":         {"1.36", "AllAlpha=true", true},
		"alpha, all beta":          {"1.36", "AllBeta=true", false},
		"beta, all alpha off":      {"1.37", "AllAlpha=false", true},
		"beta, all beta off":       {"1.37", "AllBeta=false", false},
		"beta, all off but it":     {"1.37", "AllBeta=false,UnusedSince=true", true},
		"before, all alpha":        {"1.35", "AllAlpha=true", false},
		"alpha, all alpha, it off": {"1.36", "AllAlpha=true,UnusedSince=false", false},
	} {
		gates := NewGates(table, &Notices{})
		if tc.flag != "" {
			if err := gates.Set(tc.flag); err != nil {
				t.Fatal(err)
			}
		}
		var server *version.Version
		if tc.server != "" {
			server = version.MustParse(tc.server)
		}
		if got := gates.EnabledAt(gate, server); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestKubernetesVersion(t *testing.T) {
	for want, info := range map[string]apiversion.Info{
		"1.37": {Major: "1", Minor: "37", GitVersion: "v1.37.2"},
		"1.36": {Major: "1", Minor: "36+", GitVersion: "v1.36.3-eks-0a1b2c3"},
		"1.35": {Major: "1", Minor: "35+", GitVersion: "v1.35.0+k3s1"},
		"1.34": {Major: "1", Minor: "34+"},
		"1.33": {Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "33", GitVersion: "v1.37.2"},
	} {
		if got, err := KubernetesVersion(info); err != nil || got.String() != want {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	if got, err := KubernetesVersion(apiversion.Info{GitVersion: "unknown"}); err == nil {
		t.Errorf("%v of no version", got)
	}
}
