package plane

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func parsed(t *testing.T, args ...string) *Plane {
	t.Helper()
	p := New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return p
}

// The roles of snapshots run within the provisioner, with the pace of the command line, and share one memory
// with it and with the controllers.
func TestHostedSnapshotter(t *testing.T) {
	p := parsed(t, "--with-snapshotter", "--timeout=7s", "--worker-threads=3", "--intents=off", "--snapshot-name-prefix=shot")
	if p.Snapshotter.Controller {
		t.Error("the snapshot-controller is on before the process works together")
	}
	p.hostSnapshotter()
	s := p.Snapshotter
	if !s.Controller || s.Timeout != 7*time.Second || s.Workers != 3 || s.NamePrefix != "shot" || !s.InProcess.NoJournal {
		t.Errorf("%+v", s)
	}
	memory := s.InProcess.Snapshots
	if memory == nil || memory != p.Controllers.Snapshots || memory != p.InProcess.Snapshots || len(p.Hosted) != 2 {
		t.Error("the roles do not share one memory")
	}
}

// One instance on each node has no snapshot-controller for the cluster.
func TestSnapshotterNotOnEachNode(t *testing.T) {
	t.Setenv("NODE_NAME", "n")
	p := parsed(t, "--with-snapshotter", "--node-deployment")
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "--with-snapshotter") {
		t.Errorf("%v", err)
	}
}

// The settings of roles that plane hosts are checked as by themselves.
func TestSettingsOfHostedRoles(t *testing.T) {
	for args, want := range map[string]string{
		"--with-snapshotter --snapshot-name-uuid-length=33": "--snapshot-name-uuid-length=33",
		"--with-attacher --max-entries=-1":                  "--max-entries=-1",
	} {
		err := parsed(t, strings.Fields(args)...).Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
