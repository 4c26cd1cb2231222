package provisioner

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/handoff"
)

// N-12: the flags that cannot be combined with --purser-reap-removed-nodes.
func TestReapFlags(t *testing.T) {
	t.Setenv("NODE_NAME", "n1")
	t.Setenv("NAMESPACE", "system")
	t.Setenv("POD_NAME", "pod")
	for args, want := range map[string]string{
		"": "", "--purser-reap-removed-nodes=driver": "", "--purser-reap-removed-nodes=forget --purser-reap-removed-nodes-after=10m": "",
		"--purser-reap-removed-nodes=all":                                         "not known",
		"--purser-reap-removed-nodes=forget --purser-reap-removed-nodes-after=0s": "more than 0",
		"--purser-reap-removed-nodes=driver --node-deployment":                    "--node-deployment",
		"--purser-reap-removed-nodes=driver --enable-capacity":                    "--enable-capacity",
		"--purser-reap-removed-nodes-after=0s":                                    "",
	} {
		p, err := parsed(t, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	p, err := parsed(t, "--purser-reap-removed-nodes=driver")
	if err != nil {
		t.Fatal(err)
	}
	if p.InProcess.Queue = handoff.New(); p.Validate() == nil {
		t.Error("in one process with the binder")
	}
}
