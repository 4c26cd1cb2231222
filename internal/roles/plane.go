package roles

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/controllers/handoff"
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
needs the permissions of both roles. Half of the machine's processors, at most
four, do the work unless GOMAXPROCS or --automaxprocs says otherwise.`,
		Example: `  purser plane --csi-address=/run/csi/socket --leader-election`,
		Version: program.Version,
		PreRun:  leaveProcessors,
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
	desk := handoff.New()
	c := p.Controllers
	p.traffic, p.view = &kube.Traffic{}, newView(ctx)
	defer p.view.close()
	p.shareThrottle()
	c.apiAccess, c.Desk, c.Log = p.apiAccess, desk, log.WithName("controllers")
	c.Election = electionBeside(p.Election, c.Election.identity)
	p.Desk, p.DropProtection, p.Log = desk, true, log.WithName("csi-provisioner")
	p.notices = &notices{} // they are told
	p.beside = beside{name: "controllers", ready: c.Ready, renewing: c.renewing, registry: c.registry}
	return together(ctx, map[string]func(context.Context) error{"controllers": c.Run, "csi-provisioner": p.Provisioner.Run})
}

// electionBeside is that of the controllers in the same process: another lease, a holder that says so, and no lock of v1, which had none (O-3).
func electionBeside(provisioner Election, identity string) Election {
	provisioner.identity, provisioner.lockType = identity, lockLeases
	return provisioner
}

// goodbye is how long a part may take to end when another one has failed: long enough to give its lease back. It is short, since the
// one that failed may have lost its lease, and what it had begun goes on for as long as the process lives.
const goodbye = 2 * time.Second

// together runs the parts until one of them ends, and then ends the others.
func together(ctx context.Context, parts map[string]func(context.Context) error) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(parts))
	for name, run := range parts {
		go func() { ended <- orEnded(running, name, run(running)) }()
	}
	err := <-ended
	asked := ctx.Err() != nil
	cancel()
	var late <-chan time.Time
	if !asked {
		late = time.After(goodbye)
	}
	for range len(parts) - 1 {
		select {
		case other := <-ended:
			err = errors.Join(err, other)
		case <-late:
			return err
		}
	}
	return err
}

// beside is another role in the same process, which has no HTTP endpoint of its own.
type beside struct {
	name     string
	ready    check
	renewing func() error         // its lease
	registry *prometheus.Registry // of both
}
