package cli

import (
	"slices"

	"github.com/spf13/pflag"
)

// FeatureGates is the name of the flag for feature gates, which [Gates.Include] passes on.
const FeatureGates = "feature-gates"

// AddOthers adds the flags of a role that another role contains. A flag that both have sets both. The
// flags that are left out are the containing role's alone.
func AddOthers(f *pflag.FlagSet, add func(*pflag.FlagSet), leftOut ...string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.SortFlags = false
	add(own)
	own.VisitAll(func(flag *pflag.Flag) {
		have := f.Lookup(flag.Name)
		switch {
		case slices.Contains(leftOut, flag.Name):
		case have == nil:
			f.AddFlag(flag)
		case flag.Name != FeatureGates:
			have.Value = sharedValue{have.Value, flag.Value}
		}
	})
}

// sharedValue is the value of a flag of several roles.
type sharedValue struct {
	pflag.Value
	other pflag.Value
}

// Set implements pflag.Value.
func (v sharedValue) Set(value string) error {
	if err := v.Value.Set(value); err != nil {
		return err
	}
	return v.other.Set(value)
}
