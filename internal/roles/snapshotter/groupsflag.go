package snapshotter

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// olderGate is the value of --enable-volume-group-snapshots, the flag of the versions before the
// feature gate, which charts still set (SN-F26). It sets the gate.
type olderGate struct{ gates *cli.Gates }

// Set implements pflag.Value.
func (g olderGate) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q: must be true or false", text)
	}
	return g.gates.Set(fmt.Sprintf("%s=%t", gateGroups, on))
}

// String implements pflag.Value.
func (g olderGate) String() string { return "" }

// Type implements pflag.Value.
func (g olderGate) Type() string { return "bool" }

// addOlderGate binds the flag to the gate, hidden from the help page.
func addOlderGate(f *pflag.FlagSet, gates *cli.Gates) {
	f.Var(olderGate{gates}, enabledGroups, "sets the feature gate "+string(gateGroups)+", which replaces it")
	added := f.Lookup(enabledGroups)
	added.Hidden, added.NoOptDefVal = true, "true"
	cli.Marked(f, cli.MarkDeprecated, enabledGroups)
}
