package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-base/featuregate"
)

// UnknownGateError is the error for an unknown feature gate. It has its own exit code (CL-5).
type UnknownGateError struct{ Name, Known string }

// Error implements error.
func (e UnknownGateError) Error() string {
	return fmt.Sprintf("unknown feature gate %q; known are %s", e.Name, e.Known)
}

// The switches for all gates of a stage (G-6).
const (
	GateAllAlpha featuregate.Feature = "AllAlpha"
	GateAllBeta  featuregate.Feature = "AllBeta"
)

// GateTable are the feature gates of a role.
type GateTable struct {
	Specs map[featuregate.Feature]featuregate.FeatureSpec
	// ByServer are gates of kube-controller-manager, with their stages from the oldest version to
	// the newest. Their default follows the version of the API server, see [Gates.EnabledAt].
	ByServer map[featuregate.Feature]featuregate.VersionedSpecs
	Removed  map[string]string     // gates that upstream removed, with what holds today; accepted with a warning (CL-8)
	Ignored  []string              // gates of other programs, which upstream accepts too; without effect (G-6)
	Fixed    []featuregate.Feature // gates that AllAlpha and AllBeta do not change
	// Note returns a warning about a gate that does not do what its name says; empty for none.
	Note func(name featuregate.Feature, on bool) string
	// NoteStage returns a warning about AllAlpha or AllBeta.
	NoteStage func(stage featuregate.Feature, on bool) string
}

// Gates is the value of --feature-gates.
type Gates struct {
	featuregate.MutableFeatureGate

	table   GateTable
	set     map[featuregate.Feature]bool // those that the command line names
	notices *Notices
	others  []*Gates // of the roles that run in the same process
}

// NewGates returns the gates with their defaults. Warnings go to the notices.
func NewGates(table GateTable, notices *Notices) *Gates {
	gate := featuregate.NewFeatureGate()
	specs := newest(table.ByServer)
	maps.Copy(specs, table.Specs)
	table.Specs = specs
	if err := gate.Add(table.Specs); err != nil {
		panic(err) // the table contradicts itself
	}
	return &Gates{MutableFeatureGate: gate, table: table, set: map[featuregate.Feature]bool{}, notices: notices}
}

// Include passes the gates of roles that run in the same process on to them. A gate that several
// roles have is set in each of them.
func (g *Gates) Include(others ...*Gates) {
	for _, other := range others {
		other.notices = g.notices // those are the ones that are logged
	}
	g.others = append(g.others, others...)
}

// accepts reports whether the role itself knows the name.
func (g *Gates) accepts(name string) bool {
	_, specified := g.table.Specs[featuregate.Feature(name)]
	_, removed := g.table.Removed[name]
	return specified || removed || slices.Contains(g.table.Ignored, name) ||
		name == string(GateAllAlpha) || name == string(GateAllBeta)
}

// Given reports whether the command line names the gate, or all gates of a stage.
func (g *Gates) Given(name featuregate.Feature) bool { return g.set[name] }

// Set implements pflag.Value.
func (g *Gates) Set(value string) error {
	own := strings.Split(value, ",")
	for _, other := range g.others {
		if err := other.SetKnown(value); err != nil {
			return err
		}
		own = slices.DeleteFunc(own, func(item string) bool {
			name, _, _ := strings.Cut(item, "=")
			name = strings.TrimSpace(name)
			return other.accepts(name) && !g.accepts(name)
		})
	}
	return g.setOwn(strings.Join(own, ","))
}

// SetKnown sets those of the gates that the role itself knows.
func (g *Gates) SetKnown(value string) error {
	var known []string
	for item := range strings.SplitSeq(value, ",") {
		if name, _, _ := strings.Cut(item, "="); g.accepts(strings.TrimSpace(name)) {
			known = append(known, item)
		}
	}
	return g.setOwn(strings.Join(known, ","))
}

func (g *Gates) setOwn(value string) error {
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
		if err := g.setOne(known, name, on); err != nil {
			return err
		}
	}
	for _, fixed := range g.table.Fixed {
		if _, given := known[string(fixed)]; !given {
			known[string(fixed)] = g.Enabled(fixed)
		}
	}
	return g.SetFromMap(known)
}

// setOne adds a gate to the known ones, or warns that it has no effect.
func (g *Gates) setOne(known map[string]bool, name string, on bool) error {
	feature := featuregate.Feature(name)
	if now, removed := g.table.Removed[name]; removed {
		g.notices.Add("--feature-gates="+name, "the gate does not exist any more and has no effect: "+now)
		return nil
	}
	if slices.Contains(g.table.Ignored, name) {
		g.notices.Add("--feature-gates="+name, "the gate is one of a Kubernetes library and has no effect here")
		return nil
	}
	if feature == GateAllAlpha || feature == GateAllBeta {
		if g.table.NoteStage != nil {
			g.notices.Add("--feature-gates="+name, g.table.NoteStage(feature, on))
		}
		known[name], g.set[feature] = on, true
		return nil
	}
	if _, ok := g.table.Specs[feature]; !ok {
		return UnknownGateError{Name: name, Known: g.Known()}
	}
	known[name], g.set[feature] = on, true
	if g.table.Note != nil {
		if text := g.table.Note(feature, on); text != "" {
			g.notices.Add("--feature-gates="+name, text)
		}
	}
	return nil
}

// Known lists the names of the gates.
func (g *Gates) Known() string {
	var all []string
	for name := range g.table.Specs {
		all = append(all, string(name))
	}
	for _, other := range g.others {
		for name := range other.table.Specs {
			all = append(all, string(name))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// String implements pflag.Value; the help page shows no default.
func (g *Gates) String() string { return "" }

// Type implements pflag.Value.
func (g *Gates) Type() string { return "NAME=BOOL" }
