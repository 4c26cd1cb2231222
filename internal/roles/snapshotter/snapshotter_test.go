package snapshotter

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// SM-60 to SM-68, SN-F26: the command lines of the charts, with one dash as well.
func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		failed bool
	}{
		{[]string{"--csi-address=unix:///csi/csi.sock", "--v=1", "--timeout=60s", "--leader-election=true", "--extra-create-metadata=true", "--enable-volume-group-snapshots=false"}, false},
		{[]string{"--csi-address=/s", "--v=5", "--timeout=150s", "--feature-gates=CSIVolumeGroupSnapshot=true"}, false},
		{[]string{"-csi-address=/s", "-v=2", "-kube-api-qps=20", "-kube-api-burst=100", "-worker-threads=100", "-retry-interval-max=30m"}, false},
		{[]string{"--snapshot-name-uuid-length=0"}, true},
		{[]string{"--snapshot-name-uuid-length=33"}, true},
		{[]string{"--snapshot-name-prefix="}, true},
		{[]string{"--node-deployment"}, true},
		{[]string{"--nonsense"}, true},
	} {
		s := New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.AddFlags(flags)
		err := flags.Parse(cli.DoubleDashes(tc.args))
		if err == nil {
			err = s.Validate()
		}
		if (err != nil) != tc.failed {
			t.Errorf("%v: %v", tc.args, err)
		}
	}
}

// SM-65, SM-66, SM-68.
func TestControllerFlags(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		failed bool
	}{
		{[]string{"--v=5", "--leader-election=true"}, false},
		{[]string{"--v=2", "--leader-election=false", "--prevent-volume-mode-conversion"}, false},
		{[]string{"-leader-election", "-leader-election-namespace=n", "-http-endpoint=:8080", "-retry-crd-interval-max=5s"}, false},
		{[]string{"--csi-address=/s"}, true},
		{[]string{"--enable-distributed-snapshotting"}, false},
		{[]string{"--worker-threads=0"}, true},
	} {
		c := NewController()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(flags)
		err := flags.Parse(cli.DoubleDashes(tc.args))
		if err == nil {
			err = c.Validate()
		}
		if (err != nil) != tc.failed {
			t.Errorf("%v: %v", tc.args, err)
		}
	}
}
