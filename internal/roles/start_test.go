package roles

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// CL-3: --version prints the name of the called program and the version to standard output.
func TestVersion(t *testing.T) {
	for _, p := range []cli.Program{
		{Name: "/usr/bin/csi-provisioner", Args: []string{"--version"}},
		{Name: "/usr/bin/csi-provisioner", Args: []string{"--leader-election", "--version", "--worker-threads=0"}},
		{Name: "purser", Args: []string{"csi-provisioner", "--version"}},
	} {
		var out bytes.Buffer
		p.Version, p.Out, p.Err = "v7.1.0", &out, io.Discard
		if err := Execute(t.Context(), p); err != nil || out.String() != p.Name+" v7.1.0\n" {
			t.Errorf("CL-3 %q: printed %q, %v", p.Args, out.String(), err)
		}
	}
}

// The exit codes are upstream's: CL-2 for what the parser refuses, CL-4 and F-63 for values that
// are refused afterwards, CL-5 for a gate that is not known.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args string
		want int
	}{
		{"--version", 0},
		{"--help", 0},
		{"--no-such-flag", 2},
		{"--timeout=10", 2},
		{"--feature-gates=Topology=perhaps", 2},
		{"--feature-gates=Nonsense=true", 255},
		{"--http-endpoint=:1 --metrics-address=:2", 1},
		{"--csi-address=relative", 1},
		{"--logging-format=poem", 1},
		{"--log-text-split-stream=true", 1},
		{"--log-text-info-buffer-size=1Ki", 1},
		{"--log-json-split-stream=true", 1},
		{"--log-json-info-buffer-size=1Ki", 1},
		{"stray --csi-address=relative", 1},
		{"stray --no-such-flag", 2},
	} {
		err := Execute(t.Context(), cli.Program{Name: "csi-provisioner", Version: "v", Args: strings.Fields(tc.args), Out: io.Discard, Err: io.Discard})
		if got := ExitCode(err); got != tc.want {
			t.Errorf("%s: exit code %d, want %d (%v)", tc.args, got, tc.want, err)
		}
	}
	for _, role := range []string{"controllers", "plane", "driver", "up"} {
		if err := Execute(t.Context(), cli.Program{Name: role, Args: []string{"stray"}, Out: io.Discard, Err: io.Discard}); ExitCode(err) != 2 {
			t.Errorf("%s: %v", role, err)
		}
	}
	if got := ExitCode(errors.New("at work")); got != 1 {
		t.Errorf("a failure at work: exit code %d", got)
	}
}

// NR-2, NR-7, NR-18, LP-6, LP-15: the programs of the node by the names of their images, and with one dash.
func TestProgramsOfTheNode(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		want       int
	}{
		{"/csi-node-driver-registrar", "--kubelet-registration-path=/csi.sock --mode=kubelet-registration-probe", 0},
		{"/csi-node-driver-registrar", "-kubelet-registration-path=/csi.sock -mode=kubelet-registration-probe", 0},
		{"node-driver-registrar", "--kubelet-registration-path=/csi.sock --mode=kubelet-registration-probe", 0},
		{"/csi-node-driver-registrar", "--mode=kubelet-registration-probe", 1},
		{"/csi-node-driver-registrar", "--csi-address=/csi.sock", 1},
		{"/csi-node-driver-registrar", "--health-port=many", 2},
		{"/csi-node-driver-registrar", "--version", 0},
		{"/livenessprobe", "-probe-timeout=0s", 1},
		{"/livenessprobe", "--http-endpoint=:1 --health-port=2", 1},
		{"/livenessprobe", "--no-such-flag", 2},
		{"/csi-snapshot-metadata", "-tls-cert=/c -tls-key=/k -port=many", 2}, // CB-10
		{"/csi-snapshot-metadata", "-csi-address=/csi.sock", 1},              // CB-4
		{"/csi-snapshot-metadata", "--version", 0},                           // CB-8
		{"purser", "csi-node-driver-registrar -kubelet-registration-path=/csi.sock -mode=kubelet-registration-probe", 0},
	} {
		var out bytes.Buffer
		err := Execute(t.Context(), cli.Program{Name: tc.name, Version: "v", Args: strings.Fields(tc.args), Out: &out, Err: io.Discard})
		if got := ExitCode(err); got != tc.want {
			t.Errorf("%s %s: exit code %d, want %d (%v)", tc.name, tc.args, got, tc.want, err)
		}
	}
}
