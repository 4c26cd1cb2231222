package plane

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/handoff"
)

// One role of the process listens at the HTTP endpoint: a second listener ends the process.
func TestOneRoleOfPlaneServesHTTP(t *testing.T) {
	p := New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.AddFlags(flags)
	if err := flags.Parse([]string{"--http-endpoint=:8080"}); err != nil {
		t.Fatal(err)
	}
	p.serveOnce()
	for _, other := range []string{p.Controllers.HTTPEndpoint, p.Attacher.HTTPEndpoint} {
		if p.HTTPEndpoint != ":8080" || other != "" {
			t.Errorf("the provisioner serves at %q, another role at %q", p.HTTPEndpoint, other)
		}
	}
}

// AT-F1 to AT-F3: the attacher of plane uses the timeout, the workers and the delays of the command
// line, not its own defaults.
func TestAttacherOfPlaneHasThePaceOfTheCommandLine(t *testing.T) {
	p := New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.AddFlags(flags)
	if err := flags.Parse([]string{
		"--with-attacher", "--timeout=7s", "--worker-threads=3", "--retry-interval-start=20ms", "--retry-interval-max=4s",
	}); err != nil {
		t.Fatal(err)
	}
	p.prepareAttacher(handoff.NewAttachments(), logr.Discard())
	a := p.Attacher
	if a.Timeout != 7*time.Second || a.Workers != 3 || a.RetryStart != 20*time.Millisecond || a.RetryMax != 4*time.Second {
		t.Errorf("timeout %s, %d workers, delays %s to %s", a.Timeout, a.Workers, a.RetryStart, a.RetryMax)
	}
}
