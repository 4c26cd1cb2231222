package roles

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-base/featuregate"
)

// The feature gates of upstream's latest version (G-1 to G-4).
const (
	GateTopology               featuregate.Feature = "Topology"
	GateCrossNamespaceSource   featuregate.Feature = "CrossNamespaceVolumeDataSource"
	GateVolumeAttributesClass  featuregate.Feature = "VolumeAttributesClass"
	GateReleaseLeaseOnShutdown featuregate.Feature = "ReleaseLeaderElectionOnExit"
)

// The switches for all gates of a stage (G-6).
const (
	GateAllAlpha featuregate.Feature = "AllAlpha"
	GateAllBeta  featuregate.Feature = "AllBeta"
)

// gateSpecs differ from upstream in one default: the lease is released when the process ends, so that the next leader need
// not wait for it to expire (U-59).
var gateSpecs = map[featuregate.Feature]featuregate.FeatureSpec{
	GateTopology:               {Default: true, PreRelease: featuregate.GA},
	GateCrossNamespaceSource:   {Default: false, PreRelease: featuregate.Alpha},
	GateVolumeAttributesClass:  {Default: true, PreRelease: featuregate.GA},
	GateReleaseLeaseOnShutdown: {Default: true, PreRelease: featuregate.Alpha},
}

// removedGates had their day. Upstream does not start when a chart still sets one (CL-8, G-5, U-62).
var removedGates = map[string]string{
	"HonorPVReclaimPolicy": "the reclaim policy is always honoured",
	"CSINodeInfo":          "CSINode objects are always used",
}

// Gates is the value of --feature-gates.
type Gates struct {
	featuregate.MutableFeatureGate
	set     map[featuregate.Feature]bool // those that the command line names
	notices *notices
}

func newGates(n *notices) *Gates {
	gate := featuregate.NewFeatureGate()
	if err := gate.Add(gateSpecs); err != nil {
		panic(err) // the table above contradicts itself
	}
	return &Gates{MutableFeatureGate: gate, set: map[featuregate.Feature]bool{}, notices: n}
}

// Given reports whether the command line names the gate.
func (g *Gates) Given(name featuregate.Feature) bool { return g.set[name] }

// Set implements pflag.Value.
func (g *Gates) Set(value string) error {
	known := map[string]bool{}
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, text, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%q: must be a name, = and true or false", item)
		}
		if now, removed := removedGates[name]; removed {
			g.notices.add("--feature-gates="+name, "the gate does not exist any more and has no effect: "+now)
			continue
		}
		if slices.Contains(serverGates, name) {
			g.notices.add("--feature-gates="+name, "the gate is one of the API server's and has no effect here")
			continue
		}
		if stage := featuregate.Feature(name); stage == GateAllAlpha || stage == GateAllBeta {
			g.noteStage(stage, on)
			known[name] = on
			continue
		}
		if _, ok := gateSpecs[featuregate.Feature(name)]; !ok {
			return unknownGateError{name: name, known: g.known()}
		}
		known[name] = on
		g.note(featuregate.Feature(name), on)
	}
	if _, ours := known[string(GateReleaseLeaseOnShutdown)]; !ours {
		known[string(GateReleaseLeaseOnShutdown)] = g.Enabled(GateReleaseLeaseOnShutdown) // which no stage changes
	}
	return g.SetFromMap(known)
}

// noteStage tells what a switch for all gates of a stage comes to.
func (g *Gates) noteStage(stage featuregate.Feature, on bool) {
	text := "no gate of this version is beta, so it has no effect"
	switch {
	case stage == GateAllAlpha && on:
		text = "of the alpha gates, this version does not do CrossNamespaceVolumeDataSource yet: claims with a source in another namespace are refused, each with an event"
	case stage == GateAllAlpha:
		text = "the alpha gate ReleaseLeaderElectionOnExit, which is on by default here, stays as it is unless it is named"
	}
	g.notices.add("--feature-gates="+string(stage), text)
}

// unknownGateError ends the process in its own way (CL-5).
type unknownGateError struct{ name, known string }

func (e unknownGateError) Error() string {
	return fmt.Sprintf("unknown feature gate %q; known are %s", e.name, e.known)
}

// ahead are gates of what this version does not do yet. With its gate off, upstream looks away from what a claim names, and that is not
// done here either: such claims are refused.
var ahead = map[featuregate.Feature]struct {
	off  bool // says so when it is switched off, too
	text string
}{
	GateCrossNamespaceSource:  {text: "this version does not do it yet: claims with a source in another namespace are refused, each with an event"},
	GateVolumeAttributesClass: {off: true, text: "has no effect yet: claims that name a VolumeAttributesClass are refused, each with an event"},
}

// note tells of a gate that does not do what its name says.
func (g *Gates) note(name featuregate.Feature, on bool) {
	g.set[name] = true
	if a, is := ahead[name]; is && (on || a.off) {
		g.notices.add("--feature-gates="+string(name), a.text)
	}
}

func (g *Gates) known() string {
	var all []string
	for name := range gateSpecs {
		all = append(all, string(name))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// String implements pflag.Value; the help page shows no default.
func (g *Gates) String() string { return "" }

// Type implements pflag.Value.
func (g *Gates) Type() string { return "NAME=BOOL" }
