package cli

import (
	"time"

	"github.com/spf13/pflag"
)

// RetryDelays are the settings of a role that say how long it waits after a failure.
type RetryDelays struct{ First, Longest *time.Duration }

// AddFlags binds the delays to their flags, with the defaults of the role.
func (d RetryDelays) AddFlags(f *pflag.FlagSet, first, longest time.Duration) {
	f.DurationVar(
		d.First, "retry-interval-start", first, "first delay after a failure; it doubles with each further one",
	)
	f.DurationVar(d.Longest, "retry-interval-max", longest, "longest delay after a failure")
}
