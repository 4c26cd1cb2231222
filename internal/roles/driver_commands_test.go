package roles

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/driver"
)

// A mistake on the command line is reported before any file is created.
func TestDriverMistakesLeaveNothingBehind(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for want, change := range map[string]func(*driver.Driver){
		`--endpoint="foo": must`:    func(d *driver.Driver) { d.Endpoint = "foo" },
		"--endpoint: missing":       func(d *driver.Driver) { d.Endpoint = "" },
		`--backend="floppy"`:        func(d *driver.Driver) { d.Backend = "floppy" },
		"--registration-endpoint":   func(d *driver.Driver) { d.RegistrationSocket = "/csi.sock" },
		"--registration-dir=x":      func(d *driver.Driver) { d.RegistrationDir = "x" },
		"--loopfile-over-commit=0":  func(d *driver.Driver) { d.Loopfile.OverCommit = 0 },
		"--metrics-path":            func(d *driver.Driver) { d.HTTPEndpoint, d.MetricsPath = ":9808", "metrics" },
		`--driver-name="a/b": must`: func(d *driver.Driver) { d.Name = "a/b" },
		"or give --topology=false":  func(d *driver.Driver) { d.Name = "CSI.Example.com" },
		"--http-endpoint=":          func(d *driver.Driver) { d.HTTPEndpoint = ":99999" },
		`--node-id="": missing`:     func(d *driver.Driver) { d.NodeID = "" },
		"--attach-nodes: give":      func(d *driver.Driver) { d.AttachNodes = []string{"n1"} },
		`--topology="zone"`:         func(d *driver.Driver) { d.Topology = []string{"zone"} },
		`--topology="zone": must`:   func(d *driver.Driver) { d.Topology = []string{"zone=a"} },
		`--topology="x.y/z=": the`:  func(d *driver.Driver) { d.Topology = []string{"x.y/z="} },
		"--topology=false: leave":   func(d *driver.Driver) { d.Topology = []string{"false", "x.y/z=a"} },
		"the key is given twice":    func(d *driver.Driver) { d.Topology = []string{"x.y/z=a", "x.y/z=b"} },
		"turn topology off":         func(d *driver.Driver) { d.NodeID = strings.Repeat("n", 64) },
	} {
		d := driver.New()
		d.Endpoint, d.StateDir = "unix:///run/csi.sock", state
		if err := d.Validate(); err != nil {
			t.Fatal(err)
		}
		change(d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	err := Execute(t.Context(), cli.Program{Name: "purser", Args: []string{"driver", "--endpoint", "foo", "--state-dir", state}, Out: io.Discard, Err: io.Discard})
	if _, ok := errors.AsType[cli.UsageError](err); !ok {
		t.Errorf("--endpoint foo: %v, want a mistake in usage", err)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory was made: %v", err)
	}
}
