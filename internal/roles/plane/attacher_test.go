package plane

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/controllers/handoff"
)

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
