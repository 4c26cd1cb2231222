package roles

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
)

// containing are the roles that contain others, with flags of these that they do not accept.
var containing = []struct {
	role    string
	others  []string
	without map[string]string // with the reason
}{
	{"sidecars", []string{
		"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller", "node-driver-registrar", "livenessprobe",
		"csi-external-health-monitor-controller", "csi-snapshot-metadata",
	}, nil},
	{"plane", []string{"controllers", "csi-provisioner", "csi-attacher", "csi-resizer"}, map[string]string{
		"workers": "--worker-threads is in its place",
	}},
	{"csi-snapshotter", []string{"snapshot-controller"}, nil},
	{"up", []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller"}, map[string]string{
		every: "a development cluster has settings of its own; the gates are those of the roles",
	}},
}

const every = "*"

// A role that contains others accepts their flags and gates, so that the arguments of their containers
// can be moved into its own.
func TestFlagsAndGatesOfContainedRoles(t *testing.T) {
	root := func() *cobra.Command { return newRoot(cli.Program{Out: io.Discard, Err: io.Discard}) }
	for _, tc := range containing {
		for _, other := range tc.others {
			have := named(t, root(), tc.role).Flags()
			named(t, root(), other).Flags().VisitAll(func(flag *pflag.Flag) {
				_, left := tc.without[flag.Name]
				_, all := tc.without[every]
				if accepts := have.Lookup(flag.Name) != nil; !all && accepts == left {
					t.Errorf("%s accepts --%s of %s: %t", tc.role, flag.Name, other, accepts)
				}
			})
			for gate, spec := range gatesOf(other) {
				value := string(gate) + "=true"
				if spec.LockToDefault && !spec.Default {
					value = string(gate) + "=false"
				}
				args := []string{tc.role, "--http-endpoint=here", "--feature-gates=" + value} // the role does not start
				err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard})
				if err == nil || strings.Contains(err.Error(), "gate") {
					t.Errorf("%s --feature-gates=%s of %s: %v", tc.role, value, other, err)
				}
			}
		}
		args := []string{tc.role, "--http-endpoint=here", "--feature-gates=NoSuchGate=true"}
		if err := Execute(t.Context(), cli.Program{Name: "purser", Args: args, Out: io.Discard, Err: io.Discard}); ExitCode(err) != 255 {
			t.Errorf("%s accepts a gate that no role has: %v", tc.role, err)
		}
	}
}

func named(t *testing.T, root *cobra.Command, name string) *cobra.Command {
	t.Helper()
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		t.Fatalf("no role %s", name)
	}
	return root.Commands()[i]
}

func gatesOf(role string) map[featuregate.Feature]featuregate.FeatureSpec {
	gates := map[string]*cli.Gates{
		"csi-provisioner": provisioner.New().Gates, "csi-attacher": attacher.New().Gates, "csi-resizer": resizer.New().Gates,
		"csi-snapshotter": snapshotter.New().Gates, "snapshot-controller": snapshotter.NewController().Gates,
	}[role]
	if gates == nil {
		return nil
	}
	all := maps.Clone(gates.GetAll())
	maps.DeleteFunc(all, func(gate featuregate.Feature, _ featuregate.FeatureSpec) bool {
		return gate == cli.GateAllAlpha || gate == cli.GateAllBeta
	})
	return all
}
