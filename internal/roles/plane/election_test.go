package plane

import (
	"testing"

	"github.com/spf13/pflag"
)

// O-3, RB-12: v1 had no controllers, so those of plane take the lease alone, and under the name of
// their own holder.
func TestControllersOfPlaneTakeNoLockOfV1(t *testing.T) {
	for _, args := range [][]string{{"--enable-leader-election"}, {"--leader-election", "--leader-election-type=endpoints"}} {
		p := New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		controllers := electionOfControllers(p.Election, "controllers")
		if controllers.TakesEndpoints() || !controllers.Enabled || controllers.Holder != "controllers" || !p.Election.TakesEndpoints() {
			t.Errorf("%q: controllers %+v, provisioner %+v", args, controllers, p.Election)
		}
	}
}
