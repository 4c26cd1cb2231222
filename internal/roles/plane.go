package roles

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/purser-csi/purser/internal/controllers/handover"
	"github.com/purser-csi/purser/internal/kube"
)

// Plane is the role plane: the controllers and a provisioner in one process, which then need fewer writes.
type Plane struct {
	*Provisioner
	Controllers *Controllers
}

// NewPlane has the default of every setting.
func NewPlane() *Plane {
	return &Plane{Provisioner: NewProvisioner(), Controllers: NewControllers()}
}

func newPlane(program Program) *cobra.Command {
	p := NewPlane()
	p.Version, p.Controllers.Version = program.Version, program.Version
	c := &cobra.Command{
		Use: "plane", GroupID: groupRun, Args: noArguments,
		Short: "Controllers and csi-provisioner in one process, with fewer writes",
		Long: `The roles controllers and csi-provisioner in one process. A claim is handed
from one to the other in memory, so that four writes give it a volume and four
take it back. Other drivers keep their own provisioners and are asked as ever.

The flags are those of csi-provisioner, and --controllers. The service account
needs the permissions of both roles.`,
		Example: `  purser plane --csi-address=/run/csi/socket --leader-election`,
		Version: program.Version,
		RunE:    run(p),
	}
	p.AddFlags(c.Flags())
	return c
}

// AddFlags binds every setting to its flag.
func (p *Plane) AddFlags(f *pflag.FlagSet) {
	grouped(f, "Controllers", func(f *pflag.FlagSet) {
		p.Controllers.wantedFlag(f)
		f.UintVar(&p.Controllers.Workers, "controller-threads", defaultControllerWorkers, "objects of one controller that are worked on at once")
	})
	p.Provisioner.AddFlags(f)
}

// Validate implements role.
func (p *Plane) Validate() error {
	_, wanted := p.Controllers.enabled()
	return errors.Join(wanted,
		need(p.Controllers.Workers > 0, "--controller-threads=0: must be at least 1, or nothing is worked on"),
		p.Provisioner.Validate())
}

// Run implements role. When one of the two ends, so does the other: the next process begins with both.
func (p *Plane) Run(ctx context.Context) error {
	ctx, err := p.startLogging(ctx)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	desk := handover.New()
	c := p.Controllers
	p.traffic, p.view = &kube.Traffic{}, newView(ctx)
	defer p.view.close()
	c.apiAccess, c.Desk, c.Log = p.apiAccess, desk, log.WithName("controllers")
	identity := c.Election.identity
	c.Election = p.Election
	c.Election.identity = identity // another lease, and a holder that says so
	p.Desk, p.DropProtection, p.Log = desk, true, log.WithName("csi-provisioner")
	p.notices = &notices{} // they are told
	p.beside = beside{name: "controllers", ready: c.Ready, registry: c.registry}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return orEnded(ctx, "controllers", c.Run(ctx)) })
	both.Go(func() error { return orEnded(ctx, "csi-provisioner", p.Provisioner.Run(ctx)) })
	return both.Wait()
}

// beside is another role in the same process, which has no HTTP endpoint of its own.
type beside struct {
	name     string
	ready    check
	registry *prometheus.Registry // of both
}
