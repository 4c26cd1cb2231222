package sidecars

import (
	"maps"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// A role that contains others accepts their flags and gates, so that the arguments of a manifest with
// four containers can be moved into one.
func TestFlagsAndGatesOfTheRoles(t *testing.T) {
	s := New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(f)
	gates := func(g *cli.Gates) []featuregate.Feature { return slices.Sorted(maps.Keys(g.GetAll())) }
	a, r, n := attacher.New(), resizer.New(), snapshotter.New()
	for _, role := range []struct {
		name      string
		add       func(*pflag.FlagSet)
		own, here *cli.Gates
	}{
		{"attacher", a.AddFlags, a.Gates, s.Attacher.Gates},
		{"resizer", r.AddFlags, r.Gates, s.Resizer.Gates},
		{"snapshotter", n.AddFlags, n.Gates, s.Snapshotter.Gates},
	} {
		own := pflag.NewFlagSet("", pflag.ContinueOnError)
		role.add(own)
		own.VisitAll(func(flag *pflag.Flag) {
			if f.Lookup(flag.Name) == nil && !slices.Contains(replaced, flag.Name) {
				t.Errorf("the flag --%s of csi-%s is not accepted", flag.Name, role.name)
			}
		})
		for _, gate := range gates(role.own) {
			on := !role.own.Enabled(gate)
			text := string(gate) + "=false"
			if on {
				text = string(gate) + "=true"
			}
			if err := f.Set("feature-gates", text); err != nil && !locked(role.own, gate) {
				t.Errorf("--feature-gates=%s of csi-%s: %v", text, role.name, err)
			} else if err == nil && role.here.Enabled(gate) != on {
				t.Errorf("--feature-gates=%s has no effect on csi-%s", text, role.name)
			}
		}
	}
	if err := f.Set("extra-create-metadata", "true"); err != nil || !s.Volumes.ExtraMetadata || !s.Snapshotter.ExtraMetadata {
		t.Errorf("--extra-create-metadata is not set for both roles that have it: %v", err)
	}
	if err := f.Set("feature-gates", "NoSuchGate=true"); err == nil {
		t.Error("a gate that no role has is accepted")
	}
}

func locked(g *cli.Gates, gate featuregate.Feature) bool { return g.GetAll()[gate].LockToDefault }
