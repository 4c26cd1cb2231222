package healthmonitor

import (
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// HM-1 to HM-8, HM-40: the flags of both forms of upstream's program, with one dash or two. Those that the
// newer form does not have any more are accepted with a warning.
func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		args    []string
		failed  bool
		notices int
	}{
		{nil, false, 0},
		{[]string{"-csi-address=/s", "-list-volumes-interval=10m", "-monitor-interval=5m", "-timeout=1m", "-v=5"}, false, 0},
		{[]string{"--worker-threads=5", "--resync=1m", "--volume-list-add-interval=1m", "--leader-election"}, false, 0},
		{[]string{"--enable-node-watcher", "--node-list-add-interval=5m"}, false, 2},
		{[]string{"--enable-node-watcher=false"}, false, 1},
		{[]string{"--node-list-add-interval=often"}, true, 0},
		{[]string{"--worker-threads=0"}, true, 0},
		{[]string{"--list-volumes-interval=0s"}, true, 0},
		{[]string{"--monitor-interval=0s"}, true, 0},
		{[]string{"--no-such-flag"}, true, 0},
	} {
		m := New()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		m.AddFlags(flags)
		err := flags.Parse(cli.DoubleDashes(tc.args))
		if err == nil {
			err = m.Validate()
		}
		if (err != nil) != tc.failed || !tc.failed && len(m.Notices.Lines) != tc.notices {
			t.Errorf("%v: %v, warnings %v", tc.args, err, m.Notices.Lines)
		}
	}
	if m := New(); m.ListEvery != 5*time.Minute || m.CheckEvery != time.Minute || m.Timeout != 15*time.Second ||
		m.Workers != 10 {
		t.Errorf("the defaults are %s, %s, %s, %d", m.ListEvery, m.CheckEvery, m.Timeout, m.Workers)
	}
}

// HM-41: a driver that does not report the health of a volume, or only lists, cannot be monitored.
func TestDriverThatCannotBeMonitored(t *testing.T) {
	for name, tc := range map[string]struct {
		has []csi.ControllerServiceCapability_RPC_Type
		can bool
	}{
		"neither":       {nil, false},
		"lists only":    {[]csi.ControllerServiceCapability_RPC_Type{listsHealth}, false},
		"one by one":    {[]csi.ControllerServiceCapability_RPC_Type{getsHealth}, true},
		"lists as well": {[]csi.ControllerServiceCapability_RPC_Type{getsHealth, listsHealth}, true},
	} {
		m := New()
		run := &sidecar.Sidecar{Config: &m.Config, Role: m.Role(), Conn: &csirpc.Conn{}, Driver: csirpc.Description{
			Name: "d", Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{},
		}}
		for _, capability := range tc.has {
			run.Driver.Controller[capability] = true
		}
		rows, err := m.Role().Table(t.Context(), run)
		if nothing := (sidecar.NothingToDo{}); errors.As(err, &nothing) == tc.can || tc.can && len(rows) != 1 {
			t.Errorf("%s: %d controllers, %v", name, len(rows), err)
		}
	}
}

// HM-15, HM-17: the names of the lease and of the source of the events.
func TestNames(t *testing.T) {
	role := New().Role()
	if got := role.Lease("csi.example"); got != "external-health-monitor-leader-csi-example" {
		t.Errorf("lease %s", got)
	}
	if got := role.EventSource("csi.example"); got != "csi-pv-monitor-controller-csi.example" {
		t.Errorf("events of %s", got)
	}
}
