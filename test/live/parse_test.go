package live

import (
	"io"
	"testing"

	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/provisioner"
)

func parseProvisioner(t *testing.T, args ...string) (*provisioner.Provisioner, error) {
	t.Helper()
	p := provisioner.New()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	p.AddFlags(f)
	return p, f.Parse(args)
}
