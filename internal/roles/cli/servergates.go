package cli

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/featuregate"
)

// EnabledAt returns whether a gate of kube-controller-manager is on beside an API server of this
// version: what the command line says, or the default of that version of Kubernetes. A gate that
// the version does not have is off, and so is every gate if the version is nil, which means
// unknown.
func (g *Gates) EnabledAt(name featuregate.Feature, server *version.Version) bool {
	if g.Given(name) {
		return g.Enabled(name)
	}
	var spec *featuregate.FeatureSpec
	for i := range g.table.ByServer[name] {
		if s := &g.table.ByServer[name][i]; server != nil && server.AtLeast(s.Version) {
			spec = s
		}
	}
	if spec == nil {
		return false
	}
	stage := GateAllBeta
	if spec.PreRelease == featuregate.Alpha {
		stage = GateAllAlpha
	}
	if spec.PreRelease != featuregate.GA && g.Given(stage) {
		return g.Enabled(stage)
	}
	return spec.Default
}

// newest returns the stages of the gates in the newest version, for gates without a version.
func newest(
	byServer map[featuregate.Feature]featuregate.VersionedSpecs,
) map[featuregate.Feature]featuregate.FeatureSpec {
	specs := map[featuregate.Feature]featuregate.FeatureSpec{}
	for name, stages := range byServer {
		last := stages[len(stages)-1]
		specs[name] = featuregate.FeatureSpec{Default: last.Default, PreRelease: last.PreRelease}
	}
	return specs
}

// KubernetesVersion returns the version of Kubernetes whose features an API server has. A server
// that emulates an older version has that one's.
func KubernetesVersion(info apiversion.Info) (*version.Version, error) {
	major, minor, text := info.Major, info.Minor, info.GitVersion
	if info.EmulationMajor != "" && info.EmulationMinor != "" {
		major, minor, text = info.EmulationMajor, info.EmulationMinor, ""
	}
	if text == "" {
		text = major + "." + strings.TrimRight(minor, "+") // some services report 36+
	}
	v, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("the API server reports the version %q: %w", text, err)
	}
	return version.MajorMinor(v.Major(), v.Minor()), nil
}
