package resizer

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// RZ-P1, RZ-P2, RZ-F1, RZ-F2: flags with one dash, the removed gate, and which timeout takes
// precedence.
func TestResizerFlags(t *testing.T) {
	t.Setenv(envNodeName, "node")
	for _, tc := range []struct {
		args   []string
		want   time.Duration
		failed bool
	}{
		{[]string{"-csi-address=/s", "-handle-volume-inuse-error=false", "-v=5"}, 10 * time.Second, false},
		{[]string{"--feature-gates=RecoverVolumeExpansionFailure=true", "--feature-gates=AnnotateFsResize=false"}, 10 * time.Second, false},
		{[]string{"--feature-gates=Nonsense=true"}, 0, true},
		{[]string{"--resize-timeout=1m"}, time.Minute, false},
		{[]string{"--resize-timeout=1m", "--timeout=30s"}, 30 * time.Second, false},
		{[]string{"--csiTimeout=30s", "--logtostderr"}, 10 * time.Second, false},
		{[]string{"--workers=0"}, 0, true},
		{[]string{"--node-deployment"}, 10 * time.Second, false},
		{[]string{"--node-deployment", "--leader-election"}, 0, true},
	} {
		r := New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		r.AddFlags(flags)
		err := flags.Parse(cli.DoubleDashes(tc.args))
		if err == nil {
			err = r.Validate()
		}
		if (err != nil) != tc.failed || err == nil && r.callTimeout(r.ResizeTimeout) != tc.want {
			t.Errorf("%v: %v, time-out %s, want %s", tc.args, err, r.callTimeout(r.ResizeTimeout), tc.want)
		}
	}
}

// An instance for one node needs the name of its node.
func TestNodeNameIsNeeded(t *testing.T) {
	t.Setenv(envNodeName, "")
	r := New()
	r.NodeDeployment = true
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), envNodeName) {
		t.Errorf("without NODE_NAME: %v", err)
	}
}
