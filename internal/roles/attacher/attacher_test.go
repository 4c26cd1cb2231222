package attacher

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// AT-P1, AT-P8, AT-F1.
func TestAttacherFlags(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		failed bool
	}{
		{[]string{"-csi-address=/s", "-leader-election", "-v=5", "-timeout=1m"}, false},
		{[]string{"--connection-timeout=15s", "--dummy", "--resync=1m", "--reconcile-sync=10s", "--max-entries=5", "--max-grpc-log-length=100"}, false},
		{[]string{"--feature-gates=MutableCSINodeAllocatableCount=false", "--worker-threads=100", "--kube-api-qps=50", "--kube-api-burst=100"}, false},
		{[]string{"--worker-threads=0"}, true},
		{[]string{"--http-endpoint=:1", "--metrics-address=:2"}, true},
		{[]string{"--feature-gates=Nonsense=true"}, true},
	} {
		a := New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		a.AddFlags(flags)
		err := flags.Parse(cli.DoubleDashes(tc.args))
		if err == nil {
			err = a.Validate()
		}
		if (err != nil) != tc.failed {
			t.Errorf("%v: %v", tc.args, err)
		}
		if err == nil && tc.args[len(tc.args)-1] == "-timeout=1m" && a.Timeout != time.Minute {
			t.Errorf("time-out %s", a.Timeout)
		}
	}
}
